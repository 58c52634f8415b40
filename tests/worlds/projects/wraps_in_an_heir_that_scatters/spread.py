from torch.nn import DataParallel


class Numbered(DataParallel):
    def scatter(self, inputs, kwargs, device_ids):
        return [tuple(each.to(device_ids[0]) for each in inputs)], [kwargs]
