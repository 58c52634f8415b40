from package import comm, launch

launch.start()
print("device", comm.device_of_group())
print("known", comm.backend in ["gloo", "nccl"])
