"""An agent takes profiles: requests, renewal, and the samples of processes."""

from __future__ import annotations

import asyncio
import os
import signal
import struct

import pytest

from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.messages import ProfileReply, ProfileRequest
from scaler_protocol.profile import ProfileTree
from scaler_worker.core.effects import BeginProfile, EndProfile
from scaler_worker.core.profiles import PROFILES_LIMIT, RENEWAL_SECONDS, Profiles
from scaler_worker.shell.profiles import HostProfiles
from scaler_worker.worker_process.channel import PROFILE_SIGNAL
from scaler_worker.worker_process.process_title import ProcessTitle
from scaler_worker.worker_process.sampler import HEADER, Sampler
from tests.support.waiting import wait_until
from tests.unit.worker.playbook import CLIENT, Stage

ALL = bytes(16)


def samples() -> ProfileTree:
    tree = ProfileTree()
    tree.add(("w", CLIENT.hex(), "f"), 5)
    tree.add(("w", "ff" * 16, "g"), 7)
    return tree


def test_a_profile_begins_and_its_samples_are_sent() -> None:
    stage = Stage(1)
    stage.say(ProfileRequest(3, ALL, 20_000))
    stage.say(ProfileRequest(3, ALL, 20_000))
    assert stage.count(BeginProfile) == 1
    stage.say(ProfileRequest(3, ALL, 0))
    assert EndProfile(3) in stage.effects
    stage.core.on_profile(3, samples(), stage.now)
    stage.turn()
    (reply,) = stage.bodies(ProfileReply)
    assert ProfileTree.from_bytes(reply.profile).total_us == 12


def test_the_profile_of_a_client_has_its_tasks_only() -> None:
    profiles = Profiles()
    profiles.on_request(ProfileRequest(1, CLIENT, 20_000), 0.0)
    assert profiles.on_request(ProfileRequest(1, CLIENT, 0), 1.0) == EndProfile(1)
    reply = profiles.on_profile(1, samples())
    assert reply is not None and ProfileTree.from_bytes(reply.profile).total_us == 5
    assert profiles.on_profile(1, samples()) is None


def test_a_profile_that_is_not_renewed_ends() -> None:
    profiles = Profiles()
    profiles.on_request(ProfileRequest(1, ALL, 20_000), 0.0)
    profiles.on_request(ProfileRequest(1, ALL, 20_000), 30.0)
    assert profiles.take_overdue(RENEWAL_SECONDS + 1) == []
    assert profiles.take_overdue(RENEWAL_SECONDS + 30) == [EndProfile(1)]
    assert profiles.on_profile(1, samples()) is None
    answer = profiles.on_request(ProfileRequest(1, ALL, 0), 100.0)
    assert isinstance(answer, ProfileReply) and not answer.accepted


def test_profiles_are_bounded() -> None:
    profiles = Profiles()
    for number in range(2 * PROFILES_LIMIT):
        profiles.on_request(ProfileRequest(number, ALL, 20_000), 0.0)
    assert len(profiles.take_overdue(1e9)) == PROFILES_LIMIT


def test_a_sampler_counts_the_time_of_the_task_until_it_is_told_to_end() -> None:
    title = ProcessTitle("w")
    title.show("price", CLIENT)
    sampler = Sampler(title)
    descriptor = sampler._descriptor
    sampler._start()
    assert not sampler._running.locked()  # the agent wants no samples
    os.pwrite(descriptor, struct.pack("<Q", 1000), 0)
    sampler._start()
    wait_until(lambda: HEADER.unpack(os.pread(descriptor, HEADER.size, 0))[2] > 0)
    os.pwrite(descriptor, struct.pack("<Q", 0), 0)
    wait_until(lambda: not sampler._running.locked())
    _, written, size = HEADER.unpack(os.pread(descriptor, HEADER.size, 0))
    assert written % 2 == 0
    tree = ProfileTree.from_json(os.pread(descriptor, size, HEADER.size))
    paths = [path for path, _ in tree.rows()]
    assert paths and all(path[:2] == (CLIENT.hex(), "price") for path in paths)
    assert any("wait_until" in frame for path in paths for frame in path)
    sampler._forget()  # as a child does, and its children once more
    sampler._forget()
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_a_sampler_that_is_wanted_again_while_it_ends_goes_on() -> None:
    title = ProcessTitle("w")
    title.show("price", CLIENT)
    sampler = Sampler(title)
    write, ends = sampler._write, []

    def want_again_once() -> None:
        write()
        if not ends:
            ends.append(True)
            os.pwrite(sampler._descriptor, struct.pack("<Q", 1000), 0)
            sampler._start()

    sampler._write = want_again_once  # type: ignore[method-assign]
    os.pwrite(sampler._descriptor, struct.pack("<Q", 1000), 0)
    sampler._start()
    os.pwrite(sampler._descriptor, struct.pack("<Q", 0), 0)
    wait_until(lambda: ends)
    total_us = sampler._tree.total_us
    wait_until(lambda: sampler._tree.total_us > total_us)
    os.pwrite(sampler._descriptor, struct.pack("<Q", 0), 0)
    wait_until(lambda: not sampler._running.locked())
    sampler._forget()


class Reports:
    def __init__(self) -> None:
        self.trees: dict[int, ProfileTree] = {}

    def profile(self, number: int, tree: ProfileTree) -> None:
        self.trees[number] = tree


def test_profiles_that_end_together_leave_no_sampler_running() -> None:
    title = ProcessTitle("w")
    title.show("price", CLIENT)
    sampler, reports = Sampler(title), Reports()
    sampler.offer()  # this process is the agent and the worker

    async def take_two() -> None:
        loop = GuardedLoop(asyncio.get_running_loop(), TurnGuard("Agent"))
        profiles = HostProfiles(loop, reports, lambda: [("w", os.getpid())])
        profiles.begin(1, 1_000)
        profiles.begin(2, 5_000)
        while not sampler._tree.total_us:
            await asyncio.sleep(0)
        profiles.end(1)
        profiles.end(2)
        while len(reports.trees) < 2:
            await asyncio.sleep(0.001)

    try:
        asyncio.run(take_two())
        wait_until(lambda: not sampler._running.locked())
    finally:
        signal.signal(PROFILE_SIGNAL, signal.SIG_DFL)
        sampler._forget()
    assert all({path[0] for path, _ in tree.rows()} == {"w"} for tree in reports.trees.values())
