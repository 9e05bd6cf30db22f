"""What an instruction does to barriers, mbarriers, queues of asynchronous operations, and memory."""
