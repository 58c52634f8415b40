"""What a right port may do: each idiom prints its name and a number that comes from the device."""

import copy
import io

import numpy
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

DEVICE = torch.device("cuda")
torch.manual_seed(0)
HOST = torch.randn(6, 4)
X = HOST.to(DEVICE)
LABELS = torch.tensor([0, 3, 1, 2, 0, 1])
WEIGHT = torch.randn(3, 4)


def linear():
    made = nn.Linear(4, 3)
    with torch.no_grad():
        made.weight.copy_(WEIGHT)
        made.bias.fill_(0.5)
    return made


IDIOMS = []


def idiom(function):
    IDIOMS.append(function)
    return function


@idiom
def a_scalar_of_the_cpu_beside_a_tensor():
    return X * torch.tensor(2.5) + torch.tensor(1)


@idiom
def where_takes_a_scalar_of_the_cpu():
    return torch.where(X > 0, X, torch.tensor(0.25))


@idiom
def an_index_of_the_cpu():
    return X[torch.tensor([0, 2, 5])]


@idiom
def a_list_as_an_index():
    return X[[1, 3]] + X[0:2, [3, 2, 1, 0]]


@idiom
def a_mask_of_the_device():
    return X[X > 0.1]


@idiom
def a_masked_fill():
    return X.masked_fill(X < 0, -1.5)


@idiom
def an_assignment_of_a_scalar_of_the_cpu():
    made = X.clone()
    made[2] = torch.tensor(4.5)
    return made


@idiom
def numpy_by_way_of_the_cpu():
    return torch.as_tensor(X.cpu().numpy() * numpy.float32(3), device=DEVICE)


@idiom
def numbers_read_by_the_host():
    return X * X.sum().item() + float(X[0, 0]) + X[1].tolist()[2]


@idiom
def counts():
    return torch.bincount(LABELS.to(DEVICE), minlength=5) * 0.5


@idiom
def ranges_made_where_the_data_is():
    return torch.arange(6, device=X.device).unsqueeze(1) * X


@idiom
def tensors_made_like_others():
    return X.new_ones(4) + torch.zeros_like(X) + X.new_tensor([1.5, 2, 3, 4])


@idiom
def a_permutation_with_the_device_s_generator():
    generator = torch.Generator(DEVICE).manual_seed(1)
    return X[torch.randperm(6, generator=generator, device=DEVICE)].sum(0)


@idiom
def noise_of_the_cpu_moved():
    return X + torch.randn(6, 4, generator=torch.Generator().manual_seed(2)).to(DEVICE)


@idiom
def mixed_precision():
    with torch.autocast(DEVICE.type, torch.bfloat16):
        made = linear().to(DEVICE)(X)
    return made.float().round(decimals=1)


@idiom
def scaled_gradients():
    model = linear().to(DEVICE)
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler(DEVICE.type)
    scaler.scale(model(X).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    return model.weight


@idiom
def batches_that_do_not_block():
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(HOST, LABELS), batch_size=4)
    return sum(part.to(DEVICE, non_blocking=True).sum() + label.to(DEVICE).sum() for part, label in loader)


@idiom
def a_checkpoint_read_onto_the_device():
    file = io.BytesIO()
    torch.save({"x": X}, file)
    file.seek(0)
    return torch.load(file, map_location=DEVICE)["x"] * 2


@idiom
def weights_of_the_cpu_in_a_module_of_the_device():
    model = nn.Linear(4, 3).to(DEVICE)
    model.load_state_dict(linear().state_dict())
    return model(X)


@idiom
def the_state_of_an_optimizer():
    model = linear().to(DEVICE)
    first = torch.optim.Adam(model.parameters(), 0.01)
    model(X).sum().backward()
    first.step()
    second = torch.optim.Adam(model.parameters(), 0.01)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    second.step()
    return model.weight


@idiom
def a_copy_of_a_module_on_the_cpu():
    return copy.deepcopy(linear().to(DEVICE)).to("cpu")(HOST).to(DEVICE)


@idiom
def classes_with_weights():
    return F.cross_entropy(X, LABELS.to(DEVICE), weight=torch.tensor([1.0, 2.0, 0.5, 1.5], device=DEVICE))


@idiom
def lengths_of_the_cpu():
    lstm = nn.LSTM(4, 3, batch_first=True)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.fill_(0.1)
    packed = pack_padded_sequence(X.view(2, 3, 4), torch.tensor([3, 2]), batch_first=True)
    return pad_packed_sequence(lstm.to(DEVICE)(packed)[0], batch_first=True)[0]


@idiom
def scattered_and_gathered():
    where = LABELS.to(DEVICE).unsqueeze(1)
    return torch.zeros(6, 4, device=DEVICE).scatter_(1, where, X.gather(1, where)).index_add(0, where[:, 0], X)


@idiom
def one_hot():
    return F.one_hot(LABELS.to(DEVICE), 4).float() @ X[:4]


@idiom
def clipped_gradients():
    model = linear().to(DEVICE)
    model(X).square().sum().backward()
    return nn.utils.clip_grad_norm_(model.parameters(), 1.0)


@idiom
def a_wait_for_the_device():
    made = X.cumsum(0)
    if DEVICE.type != "cpu":
        torch.accelerator.synchronize()
    return made


@idiom
def modules_made_on_the_device():
    with torch.device(DEVICE):
        model = nn.Linear(4, 3)
    model.load_state_dict(linear().state_dict())
    return model(X)


@idiom
def doubles_that_stay_on_the_host():
    return torch.tensor(HOST.double().mean(0).numpy(), dtype=torch.float32, device=DEVICE) + X


@idiom
def a_submodule_kept_on_the_cpu():
    return linear()(HOST).to(DEVICE) + linear().to(DEVICE)(X)


for function in IDIOMS:
    try:
        print(f"{function.__name__}: {float(function().detach().float().sum()):.3f}")
    except Exception as error:
        print(f"{function.__name__}: {type(error).__name__}: {error}")
