#!/bin/bash
# A short visit to a machine with a GPU: `bash tests/gpu/visit.sh OUT [tests] [op_db] [bench] [peer]`, all by default.
# Everything is written to OUT as text. Each part has a time limit (SECONDS_TESTS, SECONDS_OP_DB, SECONDS_BENCH, SECONDS_PEER) and what it has by then
# is kept. Wheels in .gpu/ are installed first: the machine has no network.
set -u
out=${1:?usage: bash tests/gpu/visit.sh OUT [tests] [op_db] [bench] [peer]}
shift
parts=${*:-tests op_db bench peer}
python=${PYTHON:-python3}
mkdir -p "$out"
export PYTHONUNBUFFERED=1 PYTHONPATH=.
{
    date -u
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv
    "$python" -c 'import sys, torch, triton; print(sys.version); print("torch", torch.__version__, "triton", triton.__version__)'
} >"$out/machine.txt" 2>&1
if ls .gpu/*.whl >/dev/null 2>&1; then
    "$python" -m pip install --quiet --no-index --no-deps .gpu/*.whl >>"$out/machine.txt" 2>&1
fi
timeout 120 "$python" setup.py -q build_ext --inplace >"$out/build.txt" 2>&1 || echo "the C extensions did not build" >>"$out/build.txt"

for part in $parts; do
    case $part in
    tests)
        timeout "${SECONDS_TESTS:-200}" "$python" -m tests.gpu >"$out/tests.txt" 2>&1
        echo "exit $?" >>"$out/tests.txt"
        if "$python" -c 'import pytest, hypothesis' 2>/dev/null; then
            timeout 100 "$python" -m pytest -q -m gpu tests/gpu tests/inductor/test_devices.py >"$out/pytest.txt" 2>&1
        fi
        ;;
    op_db)
        "$python" -m tests.gpu.op_db --seconds "${SECONDS_OP_DB:-240}" >"$out/op_db.txt" 2>&1
        echo "exit $?" >>"$out/op_db.txt"
        ;;
    bench)
        timeout "${SECONDS_BENCH:-240}" "$python" -m tests.benchmarks.gpu --systems eager,ours >"$out/bench.txt" 2>&1
        echo "exit $?" >>"$out/bench.txt"
        ;;
    peer)
        timeout "${SECONDS_PEER:-500}" "$python" -m tests.benchmarks.gpu --systems eager,ours,peer >"$out/peer.txt" 2>&1
        echo "exit $?" >>"$out/peer.txt"
        ;;
    *) echo "unknown part: $part" >>"$out/machine.txt" ;;
    esac
done
tail -n 3 "$out"/*.txt
