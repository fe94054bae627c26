"""Every operation by a boto3 that speaks the query protocol, which checks the MD5 sums itself. Run by test_peers.py."""

import json
import sys

import boto3

sqs = boto3.client(
    "sqs",
    region_name="eu-central-1",
    endpoint_url=sys.argv[1],
    aws_access_key_id="anybody",
    aws_secret_access_key="anything",
)
assert sqs.meta.service_model.metadata["protocol"] == "query"
url = sqs.create_queue(QueueName="old", Attributes={"VisibilityTimeout": "7"}, tags={"a": "b"})["QueueUrl"]
dead = sqs.create_queue(QueueName="old-dead")["QueueUrl"]
arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})
sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
assert (found["VisibilityTimeout"], found["RedrivePolicy"]) == ("7", policy)
assert sqs.get_queue_url(QueueName="old")["QueueUrl"] == url
assert sqs.list_queues(QueueNamePrefix="old")["QueueUrls"] == [url, dead]
assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
sqs.tag_queue(QueueUrl=url, Tags={"c": "d"})
sqs.untag_queue(QueueUrl=url, TagKeys=["a"])
assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"c": "d"}
attributes = {
    "text": {"DataType": "String", "StringValue": "<ü>"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
}
sqs.send_message(QueueUrl=url, MessageBody="<&>\r\n", MessageAttributes=attributes)
sqs.send_message(QueueUrl=url, MessageBody="in a year", DelaySeconds=365 * 86_400)
entries = [{"Id": "a", "MessageBody": "a", "MessageAttributes": attributes}, {"Id": "b", "MessageBody": "\x02"}]
batch = sqs.send_message_batch(QueueUrl=url, Entries=entries)
assert [one["Id"] for one in batch["Successful"]] == ["a"]
assert batch["Failed"][0]["Code"] == "InvalidMessageContents"
first, second = sqs.receive_message(
    QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["All"], WaitTimeSeconds=1
)["Messages"]
assert (first["Body"], first["MessageAttributes"]) == ("<&>\r\n", attributes)
assert first["Attributes"]["ApproximateReceiveCount"] == "1"
sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=60)
handles = [{"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate((first, second))]
changed = sqs.change_message_visibility_batch(
    QueueUrl=url, Entries=[{**one, "VisibilityTimeout": 9} for one in handles]
)
assert len(changed["Successful"]) == 2
sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
assert len(sqs.delete_message_batch(QueueUrl=url, Entries=handles)["Successful"]) == 2
sqs.purge_queue(QueueUrl=url)
sqs.delete_queue(QueueUrl=url)
code = ""
try:
    sqs.get_queue_url(QueueName="old")
except sqs.exceptions.QueueDoesNotExist as fault:
    code = fault.response["Error"]["Code"]
assert code == "AWS.SimpleQueueService.NonExistentQueue"
print("done")
