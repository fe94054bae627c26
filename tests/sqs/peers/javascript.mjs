// The AWS SDK for JavaScript, version 3, which checks the MD5 sums itself. Run by test_peers.py.
import assert from "node:assert/strict";
import * as sdk from "@aws-sdk/client-sqs";

const client = new sdk.SQSClient({
  region: "eu-central-1",
  endpoint: process.argv[2],
  credentials: { accessKeyId: "anybody", secretAccessKey: "anything" },
});
const ask = (name, given = {}) => client.send(new sdk[`${name}Command`](given));

const { QueueUrl } = await ask("CreateQueue", { QueueName: "node", Attributes: { VisibilityTimeout: "7" } });
assert.equal((await ask("GetQueueUrl", { QueueName: "node" })).QueueUrl, QueueUrl);
assert.deepEqual((await ask("ListQueues", { QueueNamePrefix: "node" })).QueueUrls, [QueueUrl]);
const MessageAttributes = {
  text: { DataType: "String", StringValue: "ü" },
  bytes: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255]) },
};
await ask("SendMessage", { QueueUrl, MessageBody: "now", MessageAttributes });
await ask("SendMessage", { QueueUrl, MessageBody: "in a year", DelaySeconds: 365 * 86400 });
const Entries = [{ Id: "a", MessageBody: "a" }, { Id: "b", MessageBody: "b" }];
assert.equal((await ask("SendMessageBatch", { QueueUrl, Entries })).Successful.length, 2);
const wanted = { MaxNumberOfMessages: 10, MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] };
const { Messages } = await ask("ReceiveMessage", { QueueUrl, WaitTimeSeconds: 1, ...wanted });
assert.deepEqual(Messages.map((one) => one.Body), ["now", "a", "b"]);
assert.equal(Messages[0].MessageAttributes.text.StringValue, "ü");
assert.deepEqual([...Messages[0].MessageAttributes.bytes.BinaryValue], [0, 255]);
const handles = Messages.map((one, at) => ({ Id: String(at), ReceiptHandle: one.ReceiptHandle }));
const hidden = handles.map((one) => ({ ...one, VisibilityTimeout: 60 }));
assert.equal((await ask("ChangeMessageVisibilityBatch", { QueueUrl, Entries: hidden })).Successful.length, 3);
assert.equal((await ask("DeleteMessageBatch", { QueueUrl, Entries: handles })).Successful.length, 3);
const counted = await ask("GetQueueAttributes", { QueueUrl, AttributeNames: ["All"] });
assert.equal(counted.Attributes.ApproximateNumberOfMessagesDelayed, "1");
await ask("TagQueue", { QueueUrl, Tags: { a: "b" } });
assert.deepEqual((await ask("ListQueueTags", { QueueUrl })).Tags, { a: "b" });
await ask("DeleteQueue", { QueueUrl });
await assert.rejects(ask("SendMessage", { QueueUrl, MessageBody: "x" }), sdk.QueueDoesNotExist);
console.log("done");
