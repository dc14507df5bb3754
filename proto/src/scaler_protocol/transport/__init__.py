"""How frames travel: ZeroMQ between hosts, stream sockets within one."""
