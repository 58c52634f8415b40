from package.losses import NLL

loss = NLL()
loss.cuda()
print("weight", loss.weight.device)
