# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Event records for monitors. See events.pyi for the contract."""

import struct
from dataclasses import replace

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset
from scaler_scheduler.core.states cimport STATUSES

from scaler_protocol.messages import DEFAULT_OPTIONS
from scaler_protocol.monitor import records
from scaler_protocol.monitor.ring import failed_rows

cdef uint32_t NONE = 0xFFFFFFFF

cdef enum:
    SUBMITTED = 2
    HANDED = 3
    GRAPH = 6
    CUT = 1
    ENDS_LIMIT = 4096
    PARTS_LIMIT = 4096
    FAILURE_LIMIT = 100  # a second, of each status; below 256
    NO_WORKER = 0xFFFF
    OPTIONS_LIMIT = 1000  # with a number at a time; readers keep the names of more
    OPTIONS_NUMBERS = 0xFFFFFE  # readers take none above
    OPTIONS_BYTES = 256 * 1024  # of their names at once
    OPTIONS_BYTES_SECOND = 64 * 1024  # and in each second later
    ACTORS_LEAVE = 64 * 1024  # so much of it remains for other options, if very many actors are called by turns

USUAL_OPTIONS = records.options_key(DEFAULT_OPTIONS)


cdef class Recorder:
    def __init__(self):
        self.ends = []
        self.options = {}

    @property
    def recorded(self):
        return self.recorded_before + (0 if self.ring is None else self.ring.recorded)

    @property
    def dropped(self):
        return self.dropped_before + (0 if self.ring is None else self.ring.dropped)

    def start(self, ring, double clock_offset):
        self.stop()
        self.ring = ring
        self.clock_offset = clock_offset
        self.recording += 1
        self.is_on = True
        self.options_room, self.options_at = OPTIONS_BYTES, self.now

    def set_clock(self, double clock_offset):
        self.clock_offset = clock_offset

    def stop(self):
        self.recorded_before, self.dropped_before = self.recorded, self.dropped
        self.ring = None
        self.is_on = False
        self.ends = []
        self.last_options, self.options = None, {}

    cdef uint64_t time(self) noexcept:
        return <uint64_t> ((self.now + self.clock_offset) * 1e6)

    # ---- names -----------------------------------------------------------------------------------------------------

    cdef uint32_t new_table(self) noexcept:
        self.tables += 1
        return self.tables - 1

    cdef uint32_t name_function(self, uint32_t number, bytes digest, str name, str module) except? 0:
        """Say what a function is called, with a new number if it has none (NONE)."""
        if number == NONE:
            number = self.functions
            self.functions += 1
        value = {"digest": digest.hex(), "name": name}
        if module:
            value["module"] = module
        self.name(records.Naming.FUNCTION, number, value)
        return number

    def name_session(self, number, value):
        self.name(records.Naming.SESSION, number, value)

    def name_agent(self, number, value):
        self.name(records.Naming.AGENT, number, value)

    cdef name(self, naming, number, value):
        cdef bytes record = records.name_record(naming, number, value, time=self.time())
        self.named_bytes += len(record)
        return self.ring.write(record)

    # ---- what happened ---------------------------------------------------------------------------------------------

    def note(self, int kind, uint32_t session=NONE, uint32_t agent=NONE, uint64_t first=0):
        self.ring.write_plain(kind, 0, self.time(), session, first, NONE, agent, 0)

    def nested(self, uint32_t session, first_child, parent):
        self.ring.write(records.nested_record(session, first_child, parent, time=self.time()))

    cdef uint32_t options_number(self, options) except? 0xFFFFFFFF:
        """The number of what monitors show of options, which is named when it is new. 0: it has none."""
        if options is self.last_options:
            return self.last_options_number
        cdef uint32_t number = self.known_options_number(options)
        if number == 0 and options.actor:  # better without the actor than not at all
            number = self.known_options_number(replace(options, actor=0, actor_session=b""))
        if number:
            self.last_options, self.last_options_number = options, number
        return number

    cdef uint32_t known_options_number(self, options) except? 0xFFFFFFFF:
        key = records.options_key(options)
        cdef uint32_t number = self.options.get(key, 0)
        return number if number else self.name_options(key, options)

    cdef uint32_t name_options(self, tuple key, options) except? 0xFFFFFFFF:
        """Give options a number. 0: they get none, because too many different ones came in the last seconds; usual ones
        always get one."""
        cdef uint32_t number = self.options_count % OPTIONS_NUMBERS + 1
        cdef uint64_t before = self.named_bytes
        self.options_room = min(
            <double> OPTIONS_BYTES, self.options_room + (self.now - self.options_at) * OPTIONS_BYTES_SECOND
        )
        self.options_at = self.now
        if self.options_room <= (ACTORS_LEAVE if options.actor else 0) and key != USUAL_OPTIONS:
            return 0
        if not self.name(records.Naming.OPTIONS, number, records.options_value(options)):
            return 0
        self.options_room -= self.named_bytes - before
        if len(self.options) >= OPTIONS_LIMIT:
            del self.options[next(iter(self.options))]
        self.options_count = self.options[key] = number
        return number

    cdef submitted(
        self, double at, uint32_t session, uint32_t function, uint64_t first, uint64_t stop, options,
        uint32_t argument_bytes,
    ):
        """Tasks with these options, and arguments of this size on average, came at a time of the core."""
        cdef uint64_t time = <uint64_t> ((at + self.clock_offset) * 1e6)
        cdef uint32_t number = self.options_number(options)
        self.ring.write_plain(SUBMITTED, stop - first, time, session, first, function, NONE, number, argument_bytes)

    cdef handed(
        self, uint32_t session, uint32_t function, uint32_t agent, uint64_t first, uint64_t stop, uint32_t attempt
    ):
        self.ring.write_plain(HANDED, stop - first, self.time(), session, first, function, agent, attempt)

    cdef results(self, run, uint32_t session, uint32_t agent, list segments, bytearray fates):
        """Record the results that an agent reports. ``segments`` and ``fates``: see the ring's ``write_ended``."""
        if self.ring.write_ended(run, self.time(), session, agent, segments, fates):
            self.failures_among(run, session, agent, segments, fates)
        if run.parts is not None:
            self.parts(run, session)
        if run.worker != NO_WORKER:
            run.forget_place()

    cdef parts(self, run, uint32_t session):
        """Record the parts of the durations of some results."""
        rows = [
            (run.task(row), run.attempt(row), fetching, loading, storing)
            for row, fetching, loading, storing in struct.iter_unpack("<4I", run.parts)
        ]
        for start in range(0, len(rows), PARTS_LIMIT):
            self.ring.write(records.parts_record(rows[start : start + PARTS_LIMIT], time=self.time(), session=session))

    cdef failures_among(self, run, uint32_t session, uint32_t agent, list segments, bytearray fates):
        self.begin_second()
        for row in failed_rows(run, bytes([FAILURE_LIMIT - self.failures[status] for status in range(STATUSES)])):
            function = next(number for first, number in reversed(segments) if first <= row)
            if fates is None or fates[row] != 255:
                self.write_failure(session, run.task(row), run.attempt(row), run.status(row), run.payload_copy(row),
                                   agent=agent, function=function, worker=run.worker)

    cdef ended(self, uint32_t session, uint64_t task, uint32_t attempt, int status, uint32_t function):
        """A task ended without an agent's word. Written a little later, with others."""
        cdef tuple place = self.places.get((session, task, attempt)) if self.places else None
        if place is not None:
            self.flush()
            self.ring.write(records.ended_record(
                [task], [place[1]], [attempt], [status], time=self.time(), session=session, function=function,
                agent=self.lost_agent, worker=place[0], ages=[self.lost_age_us],
            ))
            return
        if session != self.ends_session or len(self.ends) >= ENDS_LIMIT:
            self.flush()
            self.ends_session = session
        self.ends.append((task, 0, attempt, status, function))

    def agent_lost(self, agent, places, age_us):
        self.lost_agent, self.places, self.lost_age_us = agent, places, age_us

    def agent_removed(self):
        self.places = None

    def flush(self):
        if not self.ends:
            return
        tasks, durations, attempts, statuses, functions = zip(*self.ends)
        self.ends = []
        self.ring.write(records.ended_record(
            tasks, durations, attempts, statuses, functions=functions, time=self.time(), session=self.ends_session,
        ))

    cdef nodes(self, uint32_t session, uint32_t function, uint64_t first, uint64_t stop, uint64_t graph, edges):
        """Nodes of the graph whose last task is ``graph``. ``edges``: (node, input) pairs, flat; None: too many."""
        body = struct.pack("<Q", graph) + (b"" if edges is None else bytes(edges))
        flags = CUT if edges is None else 0
        self.ring.write(records.record(
            GRAPH, time=self.time(), flags=flags, count=stop - first, session=session, first=first, function=function,
            body=body,
        ))

    def printed(self, piece, session, agent, limit_bytes):
        self.begin_second()
        if self.printed_bytes + len(piece.data) > limit_bytes:
            self.printed_left_out += len(piece.data)
            return
        self.printed_bytes += len(piece.data)
        self.ring.write(records.output_record(
            piece.stream, piece.data, function_name=piece.function, worker_name=piece.worker,
            left_out=piece.left_out + self.printed_left_out, time=self.time(),
            session=NONE if session is None else session, task=piece.task, attempt=piece.attempt, agent=agent,
            worker=NONE if piece.place == records.NO_WORKER else piece.place,
        ))
        self.printed_left_out = 0

    def logged(self, line, agent, limit_characters):
        self.begin_second()
        if self.logged_characters + len(line.text) <= limit_characters:
            self.logged_characters += len(line.text)
            self.ring.write(records.log_record(line, agent))

    # ---- failures --------------------------------------------------------------------------------------------------

    def failed(self, session, task, status, payload):
        self.begin_second()
        if self.failures[<int> status] < FAILURE_LIMIT:
            self.write_failure(session, task, 0, status, payload)

    cdef void begin_second(self) noexcept:
        """Begin a second, in which a limited number of failures of each status may be written: a flood of one kind
        leaves room for the others."""
        if self.now - self.failures_since >= 1.0:
            self.failures_since = self.now
            self.printed_bytes = self.logged_characters = 0
            memset(self.failures, 0, sizeof(self.failures))

    cdef write_failure(self, session, task, attempt, status, payload, agent=NONE, function=NONE, worker=NONE):
        self.failures[<int> status] += 1
        if worker == records.NO_WORKER:
            worker = NONE
        self.ring.write(records.failed_record(
            status, payload, time=self.time(), session=session, task=task, attempt=attempt, agent=agent,
            function=function, worker=worker,
        ))
