"""Writes attention_pytorch2.pt with PyTorch 2 and prints the outputs that torchscript_test.cpp expects of it."""

import torch


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 32)
        self.qkv = torch.nn.Linear(32, 96)
        self.dropout = torch.nn.Dropout(0.1)
        self.out = torch.nn.Linear(32, 64)

    def forward(self, x):
        h = self.embedding(x)
        batch, positions = x.shape[0], x.shape[1]
        qkv = self.qkv(h).view(batch, positions, 3, 4, 8).permute(2, 0, 3, 1, 4)
        a = torch.nn.functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
        return self.out(self.dropout(h + a.transpose(1, 2).reshape(batch, positions, 32)))


torch.manual_seed(0)
model = Attention()
torch.jit.script(model).save("attention_pytorch2.pt")
y = model.eval()(torch.arange(10).reshape(2, 5) * 7 % 64)
print(y.double().sum().item(), y.double().abs().sum().item(), y[1, 4, :4].tolist())
