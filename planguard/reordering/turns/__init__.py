"""Orders in which the threads of a process take the one lock of ProcessGroupMPI."""
