"""The programs of "Introduction to TorchDynamo and Inductor", with devices dropped, downloads replaced by random weights."""

from __future__ import annotations

import torch

from tests.seeds.running import equal_to_eager, ran


def test_first_example() -> None:
    program = """
    from torch._dynamo import optimize
    import torch

    def fn(x, y):
        a = torch.cos(x)
        b = torch.sin(y)
        return a + b

    new_fn = optimize("inductor")(fn)
    input_tensor = torch.randn(10000)
    a = new_fn(input_tensor, input_tensor)
    """
    with ran(program) as done:
        equal_to_eager(done.names["fn"], done.names["new_fn"], torch.randn(10000), torch.randn(10000))
        assert done.graphs[0] == ["cos", "sin", "add"]


def test_resnet() -> None:
    program = """
    import torch
    import torch._dynamo as dynamo
    import torchvision
    model = torchvision.models.resnet18().eval()
    opt_model = dynamo.optimize("inductor")(model)
    model(torch.randn(1, 3, 64, 64))
    """
    with ran(program) as done:
        equal_to_eager(done.names["model"], done.names["opt_model"], torch.randn(1, 3, 64, 64))
        assert len(done.graphs) == 1


def test_bert() -> None:
    program = """
    import torch
    from transformers import BertConfig, BertModel
    import torch._dynamo as dynamo
    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=100)
    eager = BertModel(config).eval()
    model = dynamo.optimize("inductor")(eager)  # This is the only line of code that we changed
    encoded_input = {
        "input_ids": torch.arange(8).unsqueeze(0),
        "token_type_ids": torch.zeros(1, 8, dtype=torch.int64),
        "attention_mask": torch.ones(1, 8, dtype=torch.int64),
    }
    output = model(**encoded_input)
    """
    with ran(program) as done:
        expected = done.names["eager"](**done.names["encoded_input"])

        torch.testing.assert_close(done.names["output"].last_hidden_state, expected.last_hidden_state)
        torch.testing.assert_close(done.names["output"].pooler_output, expected.pooler_output)
        assert len(done.graphs) == 1


def test_timm() -> None:
    program = """
    import timm
    import torch._dynamo as dynamo
    import torch
    model = timm.create_model('resnext101_32x8d', pretrained=False, num_classes=2).eval()
    opt_model = dynamo.optimize("inductor")(model)
    out = opt_model(torch.randn(2, 3, 7, 7))
    """
    with ran(program) as done:
        equal_to_eager(done.names["model"], done.names["opt_model"], torch.randn(2, 3, 7, 7))
        assert len(done.graphs) == 1


def test_list_of_backends() -> None:
    with ran("import torch._dynamo as dynamo\nnames = dynamo.list_backends(exclude_tags=())\n") as done:
        assert "eager" in done.names["names"]
