"""The transport of frames: ZeroMQ between hosts, stream sockets within one."""
