"""An asyncio server of a compiled model: a queue, workers, an executor and a time limit.

first: it compiled once per length of the requests, in whichever thread came first
says: answer | 3 compiles
report: compiled, breaks=0, recompiles=answer
"""

import asyncio
import contextvars

import torch

request = contextvars.ContextVar("request", default=-1)


@torch.compile(backend="eager", dynamic=False)
def answer(x, k):
    return (x * k).sum()


async def worker(queue, number):
    request.set(number)
    while True:
        given, promise = await queue.get()
        if given is None:
            return request.get()
        promise.set_result((await asyncio.get_running_loop().run_in_executor(None, answer, given, 2)).item())


async def main():
    queue = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(worker(queue, n)) for n in range(2)]
        for length in (2, 3, 4, 2):
            promise = asyncio.get_running_loop().create_future()
            await queue.put((torch.full((length,), 0.5), promise))
            print(length, await promise)
        for _ in workers:
            await queue.put((None, None))
    print([w.result() for w in workers])
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)
    except TimeoutError:
        print("too late")


asyncio.run(main())
