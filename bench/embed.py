"""ONNX Runtime with parallel decoding, on the images and captions that nextpair embeds.

    python embed.py THREADS IMAGE_MODEL PREPROCESS IMAGES [TEXT_MODEL TOKENIZER CAPTIONS]

IMAGES and CAPTIONS are files of one path or caption a line. Reads requests as JSON lines from standard input,
{"run": "images", "setting": "workers"}, and answers {"seconds": 1.2} after writing rows to OUT.
"""
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime as ort
import PIL
import tokenizers
from PIL import Image

threads, (model, preprocess, images), rest = int(sys.argv[1]), sys.argv[2:5], sys.argv[5:]
paths = open(images, encoding="utf-8").read().splitlines()


def session(path, intra):
    options = ort.SessionOptions()
    options.intra_op_num_threads = intra
    options.inter_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def prepare(path):
    """The preset efficientnet-lite: 7/8 of the short side, bicubic to 224, (x - 127) / 128."""
    im = Image.open(path).convert("RGB")
    w, h = im.size
    c = min(w, h) * 7 // 8
    left, top = (w - c + 1) // 2, (h - c + 1) // 2
    im = im.crop((left, top, left + c, top + c)).resize((224, 224), Image.BICUBIC)
    x = (np.asarray(im, np.float32) - 127.0) / 128.0
    return np.ascontiguousarray(x.transpose(2, 0, 1))


assert preprocess == "efficientnet-lite", "the rival knows one way to prepare images"
sessions = {1: session(model, 1), threads: session(model, threads)}
entry = sessions[1].get_inputs()[0].name


def run_images(setting):
    if setting == "workers":  # one image at a time on every thread
        run = lambda path: sessions[1].run(["pooled"], {entry: prepare(path)[None]})[0]
        with ThreadPoolExecutor(threads) as pool:
            return np.concatenate(list(pool.map(run, paths)))
    batch = int(setting)  # batches on all threads, images prepared by others meanwhile
    with ThreadPoolExecutor(threads) as pool:
        prepared = pool.map(prepare, paths)
        rows = []
        for start in range(0, len(paths), batch):
            pixels = np.stack([next(prepared) for _ in paths[start : start + batch]])
            rows.append(sessions[threads].run(["pooled"], {entry: pixels})[0])
        return np.concatenate(rows)


if rest:
    text_session, tokenizer = session(rest[0], 1), tokenizers.Tokenizer.from_file(rest[1])
    tokenizer.no_padding()
    captions = open(rest[2], encoding="utf-8").read().splitlines()


def embed(caption):
    ids = np.array([tokenizer.encode(caption).ids], np.int64)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    mean = text_session.run(None, inputs)[0][0].mean(0)
    return mean / np.linalg.norm(mean)


def run_texts(_):
    with ThreadPoolExecutor(threads) as pool:
        return np.stack(list(pool.map(embed, captions)))


versions = {
    "numpy": np.__version__,
    "onnxruntime": ort.__version__,
    "pillow": PIL.__version__,
    "tokenizers": tokenizers.__version__,
}
print(json.dumps({"versions": versions}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    began = time.perf_counter()
    rows = {"images": run_images, "texts": run_texts}[request["run"]](request["setting"])
    seconds = time.perf_counter() - began
    np.save(request["out"], rows.astype(np.float32))
    print(json.dumps({"seconds": seconds}), flush=True)
