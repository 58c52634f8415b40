from data_utils import prepare_sample


class Task:
    def train_epoch(self, model, loader, cuda_enabled=False):
        for samples in loader:
            print("trained on", prepare_sample(samples, cuda_enabled=cuda_enabled)["x"].device)
