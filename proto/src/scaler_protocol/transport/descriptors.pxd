"""System calls on sockets, epoll and timers which Python offers only with an object for each step.

Linux has them. Elsewhere ports have no ``local_socket``, so nothing here is called: it compiles, and fails.
"""

from libc.stdint cimport int64_t, uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #if defined(__linux__)
    #include <errno.h>
    #include <netinet/in.h>
    #include <netinet/tcp.h>
    #include <string.h>
    #include <sys/epoll.h>
    #include <sys/socket.h>
    #include <sys/timerfd.h>
    #include <sys/uio.h>
    #include <time.h>
    typedef struct iovec scaler_part;
    enum {
        SCALER_READABLE = EPOLLIN,
        SCALER_WRITABLE = EPOLLOUT,
        SCALER_ADD = EPOLL_CTL_ADD,
        SCALER_CHANGE = EPOLL_CTL_MOD,
        SCALER_REMOVE = EPOLL_CTL_DEL
    };
    static inline int scaler_watch(int epoll, int operation, int fd, uint32_t events) {
        struct epoll_event event;
        memset(&event, 0, sizeof(event));
        event.events = events;
        event.data.fd = fd;
        return epoll_ctl(epoll, operation, fd, &event);
    }
    static inline int scaler_ready(int epoll, int *fds, int limit) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, limit < 64 ? limit : 64, 0);
        for (int index = 0; index < count; index++)
            fds[index] = events[index].data.fd;
        return count < 0 ? 0 : count;
    }
    static inline int64_t scaler_receive(int fd, void *room, size_t size, int peek) {
        for (;;) {
            ssize_t count = recv(fd, room, size, MSG_DONTWAIT | (peek ? MSG_PEEK : 0));
            if (count >= 0)
                return count;
            if (errno != EINTR)
                return errno == EAGAIN || errno == EWOULDBLOCK ? -1 : -2;
        }
    }
    static inline int64_t scaler_send(int fd, scaler_part *parts, size_t count) {
        struct msghdr message;
        memset(&message, 0, sizeof(message));
        message.msg_iov = parts;
        message.msg_iovlen = count;
        for (;;) {
            ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent >= 0)
                return sent;
            if (errno != EINTR)
                return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? -1 : -2;
        }
    }
    static inline double scaler_seconds(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
    }
    /* tcpi_bytes_received, which headers older than Linux 4.1 do not have; a kernel without it says 0. */
    static inline int64_t scaler_received(int fd) {
        unsigned char info[136];
        int64_t received = 0;
        socklen_t size = sizeof(info);
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) < 0)
            return -1;
        if (size == sizeof(info))
            memcpy(&received, info + 128, sizeof(received));
        return received;
    }
    /* Packets that were sent, and that the other end's kernel has not acknowledged (tcpi_unacked). */
    static inline int64_t scaler_unacknowledged(int fd) {
        unsigned char info[28];
        uint32_t count = 0;
        socklen_t size = sizeof(info);
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) < 0 || size < sizeof(info))
            return -1;
        memcpy(&count, info + 24, sizeof(count));
        return count;
    }
    static inline int scaler_timer(void) {
        return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    }
    static inline int scaler_set_timer(int fd, double seconds) {
        struct itimerspec times;
        memset(&times, 0, sizeof(times));
        times.it_value.tv_sec = (time_t) seconds;
        times.it_value.tv_nsec = (long) (1e9 * (seconds - (double) times.it_value.tv_sec));
        return timerfd_settime(fd, 0, &times, NULL);
    }
    #else
    typedef struct { void *iov_base; size_t iov_len; } scaler_part;
    enum { SCALER_READABLE, SCALER_WRITABLE, SCALER_ADD, SCALER_CHANGE, SCALER_REMOVE };
    static inline int scaler_watch(int epoll, int operation, int fd, uint32_t events) {
        (void) epoll; (void) operation; (void) fd; (void) events;
        return -1;
    }
    static inline int scaler_ready(int epoll, int *fds, int limit) {
        (void) epoll; (void) fds; (void) limit;
        return 0;
    }
    static inline int64_t scaler_receive(int fd, void *room, size_t size, int peek) {
        (void) fd; (void) room; (void) size; (void) peek;
        return -2;
    }
    static inline int64_t scaler_send(int fd, scaler_part *parts, size_t count) {
        (void) fd; (void) parts; (void) count;
        return -2;
    }
    static inline double scaler_seconds(void) {
        return 0;
    }
    static inline int64_t scaler_received(int fd) {
        (void) fd;
        return -1;
    }
    static inline int64_t scaler_unacknowledged(int fd) {
        (void) fd;
        return -1;
    }
    static inline int scaler_timer(void) {
        return -1;
    }
    static inline int scaler_set_timer(int fd, double seconds) {
        (void) fd; (void) seconds;
        return -1;
    }
    #endif
    """
    ctypedef struct Part "scaler_part":
        void* iov_base
        size_t iov_len

    const uint32_t READABLE "SCALER_READABLE"
    const uint32_t WRITABLE "SCALER_WRITABLE"
    const int ADD "SCALER_ADD"
    const int CHANGE "SCALER_CHANGE"
    const int REMOVE "SCALER_REMOVE"

    # 0, or -1 for an error
    int watch "scaler_watch"(int epoll, int operation, int fd, uint32_t events) noexcept nogil

    # How many descriptors are ready now, at most 64
    int ready "scaler_ready"(int epoll, int* fds, int limit) noexcept nogil

    # Bytes; 0: the other end is gone; -1: nothing now; -2: an error
    int64_t receive_bytes "scaler_receive"(int fd, void* room, size_t size, int peek) noexcept nogil

    # Bytes that were taken; -1: none now; -2: an error
    int64_t send_parts "scaler_send"(int fd, Part* parts, size_t count) noexcept nogil

    # Of a monotonic clock, to some milliseconds: cheaper than to ask for more
    double coarse_seconds "scaler_seconds"() noexcept nogil

    # Of a tcp connection, since it began; -1: an error
    int64_t received_bytes "scaler_received"(int fd) noexcept nogil

    # Of a tcp connection, on their way; -1: an error
    int64_t unacknowledged_packets "scaler_unacknowledged"(int fd) noexcept nogil

    # A descriptor, or -1 for an error
    int new_timer "scaler_timer"() noexcept nogil

    # Readable from then on; 0: never. What it said before is taken back. 0, or -1 for an error
    int set_timer "scaler_set_timer"(int fd, double seconds) noexcept nogil
