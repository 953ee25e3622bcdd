import pytest
import torch


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(params=["eager", "aot_eager"])
def compiled(request):
    return lambda f: torch.compile(f, backend=request.param, fullgraph=True)
