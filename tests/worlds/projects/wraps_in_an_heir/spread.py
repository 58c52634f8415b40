from torch.nn import DataParallel


class Numbered(DataParallel):
    def replicate(self, module, device_ids):
        modules = super().replicate(module, device_ids)
        for number, each in enumerate(modules):
            each.number = number
        return modules
