"""beanstalkd's clients as people have them, unchanged: the same program of each against tarry and beanstalkd itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import greenstalk
import pystalk
import pytest

from beanstalk.conftest import Beanstalk
from until import LONGEST_S

BODY = "tea, grün"
SERVERS = ["tarry", "beanstalkd"]
JACKD = "jackd@2.2.2"
NODE = """
const Jackd = require('jackd'), assert = require('assert')
async function main() {
  const producer = new Jackd(), consumer = new Jackd(), where = {host: '127.0.0.1', port: Number(process.argv[2])}
  await producer.connect(where); await consumer.connect(where)
  await producer.use('node'); await consumer.watch('node'); await consumer.ignore('default')
  const waiting = consumer.reserve()
  const id = await producer.put('tea, green', {priority: 5, ttr: 30})
  const job = await waiting
  assert.deepStrictEqual([String(job.id), job.payload.toString()], [String(id), 'tea, green'])
  await consumer.touch(id); await consumer.release(id, {priority: 7, delay: 100})
  assert.strictEqual((await producer.statsJob(id)).includes('pri: 7'), true)
  await producer.kick(10)
  await consumer.reserve(); await consumer.bury(id); await producer.kickJob(id)
  await consumer.reserve(); await consumer.delete(id)
  await producer.disconnect(); await consumer.disconnect()
  console.log('done')
}
main().catch(fault => { console.error(fault); process.exit(1) })
"""
PHP = """<?php
require '/usr/share/php/Pheanstalk/autoload.php';
use Pheanstalk\\Pheanstalk;
$producer = Pheanstalk::create('127.0.0.1', (int) $argv[1]);
$consumer = Pheanstalk::create('127.0.0.1', (int) $argv[1]);
$producer->useTube('php');
$consumer->watchOnly('php');
$put = $producer->put('tea, grün', 5, 0, 30);
$job = $consumer->reserveWithTimeout(5);
assert($job->getId() === $put->getId() && $job->getData() === 'tea, grün');
$consumer->touch($job);
$consumer->release($job, 7, 100);
assert($producer->statsJob($job)->pri == 7 && $producer->statsJob($job)->state == 'delayed');
assert($producer->kick(10) == 1);
$job = $consumer->reserve();
$consumer->bury($job, 9);
assert($producer->peekBuried()->getId() === $job->getId());
$producer->kickJob($job);
$job = $consumer->reserve();
$consumer->delete($job);
assert($consumer->reserveWithTimeout(0) === null);
$producer->pauseTube('php', 60);
$producer->resumeTube('php');
assert(in_array('php', iterator_to_array($producer->listTubes())));
assert($producer->stats()['current-jobs-ready'] !== null);
echo 'done';
"""


@pytest.fixture(params=SERVERS)
def port(request: pytest.FixtureRequest) -> int:
    """Of tarry, or of beanstalkd itself."""
    if request.param == "beanstalkd":
        return int(request.getfixturevalue("real_beanstalkd"))
    service: Beanstalk = request.getfixturevalue("service")
    return service.port


def test_greenstalk(port: int) -> None:
    with (
        greenstalk.Client(("127.0.0.1", port), use="green") as producer,
        greenstalk.Client(("127.0.0.1", port), watch=["green"]) as consumer,
    ):
        id = producer.put(BODY, priority=5, delay=0, ttr=30)
        job = consumer.reserve(timeout=5)
        assert (job.id, job.body) == (id, BODY)
        consumer.touch(job)
        consumer.release(job, priority=7, delay=100)
        assert producer.stats_job(job)["state"] == "delayed"
        assert producer.kick(10) == 1
        consumer.bury(consumer.reserve(), priority=9)
        assert producer.peek_buried().id == id
        producer.kick_job(id)
        assert consumer.reserve_job(id).body == BODY
        assert producer.stats_job(id)["pri"] == 9
        consumer.delete(id)
        with pytest.raises(greenstalk.NotFoundError):
            producer.peek(id)
        with pytest.raises(greenstalk.TimedOutError):
            consumer.reserve(timeout=0)
        with pytest.raises(greenstalk.NotIgnoredError):
            consumer.ignore("green")
        with pytest.raises(greenstalk.JobTooBigError):
            producer.put("x" * 65_536)
        producer.pause_tube("green", 60)
        assert 0 < producer.stats_tube("green")["pause-time-left"] <= 60
        assert "green" in producer.tubes()
        assert producer.stats()["current-connections"] >= 2
        producer.put(BODY, ttr=1)
        producer.pause_tube("green", 0)
        consumer.reserve()
        with pytest.raises(greenstalk.DeadlineSoonError):
            consumer.reserve()


def test_pystalk(port: int) -> None:
    producer, consumer = (pystalk.BeanstalkClient("127.0.0.1", port, auto_decode=True) for _ in range(2))
    producer.use("py")
    consumer.watch("py")
    _, id = producer.put_job(BODY, pri=5, ttr=30)
    job = consumer.reserve_job(5)
    assert (job.job_id, job.job_data) == (id, BODY)
    consumer.release_job(id, 7, 100)
    assert producer.stats_job(id)["delay"] == 100
    assert next(producer.peek_delayed_iter()).job_id == id
    producer.kick_jobs(10)
    consumer.bury_job(consumer.reserve_job(5).job_id, 9)
    producer.kick_job(id)
    consumer.delete_job(consumer.reserve_job(5).job_id)
    with pytest.raises(pystalk.BeanstalkError):
        consumer.reserve_job(0)
    assert "py" in producer.list_tubes()
    assert producer.stats_tube("py")["total-jobs"] == 1
    for one in (producer, consumer):
        one.close()


@pytest.mark.long
def test_a_node_client(port: int, tmp_path: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs nodejs and npm")
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tmp_path), JACKD]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        pytest.skip(f"needs {JACKD} from the npm registry")
    program = tmp_path / "program.js"
    program.write_text(NODE)
    assert subprocess.check_output([node, program, str(port)], timeout=LONGEST_S, text=True).strip() == "done"


@pytest.mark.long
def test_a_php_client(port: int, tmp_path: Path) -> None:
    php = shutil.which("php")
    if php is None or not Path("/usr/share/php/Pheanstalk/autoload.php").exists():
        pytest.skip("needs php-cli and php-pda-pheanstalk")
    program = tmp_path / "program.php"
    program.write_text(PHP)
    command = [php, "-d", "zend.assertions=1", "-d", "assert.exception=1", program, str(port)]
    assert subprocess.check_output(command, timeout=LONGEST_S, text=True).strip() == "done"
