#!/usr/bin/env bash
# What only a machine with a CUDA device can show, in one go:
#   benchmarks/gpu.sh DIR [EPOCHS] [OUT]
# DIR holds CIFAR10.npz or cifar-10-batches-py, and NAME.zip files of the TUDataset collection.
# Tests marked gpu; the images' step, memory and loss; large batches; the loss of every method;
# ResNet-50 on all of CIFAR10 with ucl, hucl, scl and hscl for the same number of epochs, in bf16.
# Begun again, it goes on where it stopped.
# Then ensembles: seconds a step and memory by their size; a search, batched and one by one; and
# Table II from end to end, 5 sets x 8 configurations x 10 seeds under either protocol, into new
# folders in OUT (DIR if not given): a table that is there already would only be shown, and is not
# timed again. Then an encoder of molecules, pre-trained on all of MOSES if it is in DIR, and last the
# table of recipes, into a folder of its own there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
data="${1:?the folder with the data}"
epochs="${2:-20}"
out="${3:-$data}"
python="${PYTHON:-.venv/bin/python}"

"$python" -m pytest -m gpu
"$python" benchmarks/images.py --encoder resnet50 --precision bf16 --device cuda \
  --out benchmarks/results/images-gpu.csv
"$python" benchmarks/losses.py --device cuda --sizes 2048,8192,65536,262144 --peers-up-to 16384 \
  --out benchmarks/results/losses-gpu.csv
"$python" benchmarks/methods.py --device cuda --out benchmarks/results/methods-gpu.csv
"$python" -m gcl_hard.bench --dataset CIFAR10 --data-dir "$data" \
  --method ucl,hucl,scl,hscl,majority,pixels,untrained --beta 1 --epochs "$epochs" --seeds 1 \
  --precision bf16 --device cuda --monitor-every 5 --checkpoint-minutes 2 --resume \
  --output benchmarks/results/tables --report docs/results-cifar10.md
"$python" benchmarks/ensembles.py --device cuda --data-dir "$data" \
  --out benchmarks/results/ensembles-gpu.csv
"$python" benchmarks/tuning.py --device cuda --trials 256 --data-dir "$data" \
  --out benchmarks/results/tuning-gpu.csv

TIMEFORMAT="%0R s"
for protocol in transductive inductive; do
  folder="$out/table-$protocol"
  if [ -e "$folder" ]; then
    echo "Table II, $protocol: $folder is there already, not timed"
    continue
  fi
  echo "Table II, $protocol, end to end:"
  time "$python" -m gcl_hard.bench --table 2 --protocol "$protocol" --seeds 10 --device cuda \
    --method ucl,hucl,scl,hscl --select false --data-dir "$data" --output "$folder"
done

if compgen -G "$data/moses/train.csv*" >/dev/null || compgen -G "$data/*/moses/train.csv*" >/dev/null; then
  echo "All of MOSES, 5 layers of 300, 10 epochs:"
  time "$python" -m gcl_hard.pretrain --dataset MOSES --data-dir "$data" --device cuda --layers 5 \
    --dim 300 --epochs 10 --batch-size 1024 --jobs 8 --checkpoint-minutes 2 --output "$out/moses.pt"
fi

echo "The recipe table, end to end:"
time "$python" -m gcl_hard.bench --table recipe --device cuda --data-dir "$data" \
  --output "$out/table-recipe"
