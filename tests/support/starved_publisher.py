"""A publisher without memory for most of its modules: ``python -m tests.support.starved_publisher FD ...``."""

import resource
import sys

from scaler_scheduler.shell import publisher_process

if __name__ == "__main__":
    with open("/proc/self/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    sys.exit(publisher_process.main())
