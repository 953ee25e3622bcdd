"""A server of coroutines that collects requests into batches for a compiled model.

first: batches of two sizes, so two compiles
says: infer is compiled 2 times because batch.size(0) changes | batch.size(0) = 3, 2
report: compiled
every run
"""

import asyncio

import torch


@torch.compile(backend="eager", dynamic=False)
def infer(batch):
    return (batch * 2 + 1).sum(-1)


async def serve(queue):
    while (first := await queue.get()) is not None:
        batch = [first]
        while len(batch) < 3 and not queue.empty():
            batch.append(queue.get_nowait())
        out = await asyncio.to_thread(infer, torch.stack([x for x, _ in batch]))
        for (_, done), value in zip(batch, out.tolist(), strict=True):
            done.set_result(value)


async def ask(queue, number):
    done = asyncio.get_running_loop().create_future()
    await queue.put((torch.full((2,), float(number)), done))
    return await done


async def main():
    queue = asyncio.Queue()
    server = asyncio.create_task(serve(queue))
    print(await asyncio.gather(*(ask(queue, n) for n in range(5))))
    await queue.put(None)
    await server


asyncio.run(main())
