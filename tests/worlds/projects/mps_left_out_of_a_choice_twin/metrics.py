def accuracy(output, labels):
    return output.eq(labels).float()
