"""The PyTorch rivals of the GPU path: training steps and scores of Text-IMRAM.

    python gpu.py [--out FILE] [--only train,score,plain] [--precisions bf16,tf32,fp32] [--quick]
    python gpu.py --file FILE           a batch or tile of a file instead of generated ones
    python gpu.py --save FOLDER         only write the generated inputs, for others to read
    python gpu.py --device cpu --dim 32 --features 48 --vocabulary 100 --batches 8 --tile 8

train   A step from features and word ids that are on the device: encoders with cuDNN's GRU, all
        pairs of the batch, the loss, gradients, clipping, fused Adam. Three forms, see
        imram_gpu.py: published, and rearranged with dense and with sparse gradients, compiled. A
        compiled step is also captured as one CUDA graph at the end, without launches from the host.
score   A tile of similarities from embeddings on the device, tables included: published, and
        rearranged, compiled.
plain   What the device can do: a product of 8192^3 in each precision and a copy in its memory.

fp32 and tf32 are PyTorch's switches, bf16 is autocast (with tf32 for what it leaves at float32).
cuDNN's GRU under autocast is half precision; it has that or tf32, whichever is faster and right.

Answers first: in float64 on a small case, all forms agree with the published one. Then, on the data
and with the very kernels that are timed, similarities, loss and gradients are compared with the
published form in fp32; a form that is off by more than TOLERANCES is reported and not timed. In low
precision another negative may be the hardest, so gradients are compared for the negatives that the
form chose, and these must be as hard as the hardest to twice the tolerance of similarities.

Times are of CUDA events, without warm-up and compilation: the median of repeats, and their least
and most. Other processes compile beforehand (`--compilers`) and leave the results in PyTorch's
cache. After `--seconds`, what is left is left out and listed, most important first: --lengths and
--batches in the order given. The record is written after every number.
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import gpu_inputs
import imram_gpu
import numpy
import safetensors
import torch
import torch._dynamo
import torch._functorch.config
from gpu_checks import TOLERANCES, Reference, autocast, mine, use
from imram import Memory, Published
from imram_gpu import COMPILED, FORMS, Step, layout, score

BEGAN = time.perf_counter()
PRECISIONS = ["bf16", "tf32", "fp32"]


def options():
    parser = argparse.ArgumentParser(description="See the top of the script.")
    many = lambda kind: lambda text: [kind(part) for part in text.split(",")]
    add = parser.add_argument
    add("--device", default="cuda")
    add("--only", type=many(str), default=["plain", "score", "train"])
    add("--precisions", type=many(str), default=PRECISIONS)
    add("--forms", type=many(str), default=FORMS, help="of training, and published of scoring")
    add("--lengths", type=many(str), default=["exact"], help="exact,drawn")
    add("--batches", type=many(int), default=[128])
    add("--tile", type=int, default=256, help="images, and captions, of a tile")
    add("--words", type=int, default=12, help="mean number of words, markers included")
    add("--regions", type=int, default=36)
    add("--features", type=int, default=2048)
    add("--dim", type=int, default=1024)
    add("--vocabulary", type=int, default=8481)
    add("--seed", type=int, default=1)
    add("--file", help="safetensors, see matching.py")
    add("--save", help="folder for the generated inputs")
    add("--mode", default="default", help="of torch.compile, max-autotune-no-cudagraphs; or eager")
    add("--align", type=int, default=8, help="pad regions to a multiple of this")
    add("--no-graphs", action="store_true", help="do not capture CUDA graphs")
    add("--compilers", type=int, default=9, help="processes that compile beforehand; 0 for none")
    add("--seconds", type=float, default=100, help="start nothing new after this time")
    add("--quick", action="store_true", help="three repeats, no CUDA graphs")
    add("--out", help="file for the record")
    add("--warm", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.no_graphs |= given.quick
    return given


def model_config(given):
    return {
        "family": "IMRAM",
        "model_mode": "text_IMRAM",
        "img_dim": given.features,
        "embed_size": given.dim,
        "vocab_size": given.vocabulary,
        "word_dim": 300,
        "num_layers": 1,
        "bi_gru": True,
        "no_imgnorm": False,
        "no_txtnorm": False,
        "precomp_enc_type": "basic",
        "raw_feature_norm": "clipped_l2norm",
        "iteration_step": 3,
        "lambda_softmax": 9.0,
        "margin": 0.2,
        "no_IMRAM_norm": True,
        "lr": 2e-4,
        "grad_clip": 2.0,
    }


def operations(config, regions, images, words):
    """Of the rearranged form: of scoring, and of the tables."""
    steps, d = config["iteration_step"], config["embed_size"]
    scoring = 2 * steps * regions * d + 4 * (steps - 1) * regions * d
    scoring += 4 * max(steps - 2, 0) * d * d + 2 * steps * (regions * regions + regions)
    of_tables = images * (4 * regions * d * d + 2 * regions * regions * d) + words * 4 * d * d
    return images * words * scoring, of_tables


class Bench:
    def __init__(self, given):
        self.given, self.device, self.config = given, given.device, model_config(given)
        self.cuda = given.device == "cuda"
        self.record = {"results": [], "wrong": [], "left_out": [], "checks": {}, "plain": {}}
        self.record |= {"device": "cpu", "seed": given.seed, "config": self.config}
        versions = {"python": platform.python_version(), "torch": torch.__version__}
        versions |= {"numpy": numpy.__version__, "safetensors": safetensors.__version__}
        if self.cuda:
            self.record["device"] = torch.cuda.get_device_name()
            versions |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
            versions["triton"] = __import__("triton").__version__
        self.record["versions"] = versions
        self.compiled = {"dynamic": False, "fullgraph": True, "mode": given.mode}
        if given.mode == "eager":
            self.compiled = {"disable": True}
        self.graphs = []

    # Time

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def seconds(self, call, calls, repeats):
        """Of a call, for every repeat. The host does not wait between repeats."""
        if not self.cuda:
            marks = [time.perf_counter()]
            for _ in range(repeats):
                for _ in range(calls):
                    call()
                marks.append(time.perf_counter())
            return [(end - start) / calls for start, end in itertools.pairwise(marks)]
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
        self.wait()
        marks[0].record()
        for mark in marks[1:]:
            for _ in range(calls):
                call()
            mark.record()
        self.wait()
        return [start.elapsed_time(end) / 1e3 / calls for start, end in itertools.pairwise(marks)]

    def measure(self, call):
        """After the check, which was the first call."""
        once = self.seconds(call, 1, 1)[0]
        slow = once > 0.15
        if not slow:
            once = self.seconds(call, 1, 2)[1]
        repeats = 3 if slow or self.given.quick else 9
        times = self.seconds(call, max(1, min(20, int(0.03 / once))), repeats)
        return {
            "ms": round(1e3 * statistics.median(times), 4),
            "least": round(1e3 * min(times), 4),
            "most": round(1e3 * max(times), 4),
            "repeats": len(times),
        }

    def late(self, name):
        """Whether there is no time left for this."""
        if time.perf_counter() - BEGAN < self.given.seconds:
            return False
        self.record["left_out"].append(name)
        return True

    # Record

    def say(self, text):
        print(f"{time.perf_counter() - BEGAN:6.1f} s  {text}", flush=True)

    def keep(self, name, result):
        self.say(f"{name}: {result['ms']} ms")
        self.record["results"].append(result)
        self.write()

    def write(self):
        if self.given.out:
            with open(self.given.out, "w") as file:
                json.dump(self.record, file, indent=1)

    def right(self, name, precision, off):
        """Whether a form may be timed."""
        # Written so that NaN fails.
        bounds = dict(zip(("similarity", "loss", "gradient"), TOLERANCES[precision]))
        bounds["choice"] = 2 * bounds["similarity"]
        fine = all(off[what] <= bounds[what] for what in off)
        off = {what: float(f"{value:.2g}") for what, value in off.items()}
        self.record["checks"][name] = off
        if not fine:
            self.record["wrong"].append(name)
        self.say(f"{name}: {'off by' if fine else 'WRONG, off by'} {off}")
        return fine

    # Checks

    def small(self):
        """All forms in float64, not compiled, on a small case with captions of many lengths."""
        use("fp32")
        torch.set_default_dtype(torch.double)
        sizes = {"embed_size": 32, "img_dim": 24, "vocab_size": 50, "word_dim": 16}
        for normalised in (True, False):
            config = self.config | sizes | {"no_IMRAM_norm": not normalised}
            given, parameters = gpu_inputs.training(config, 5, 6, "drawn", 12, 3, self.device)
            given["images"] = given["images"].double()
            parameters = {name: values.double() for name, values in mine(parameters).items()}
            make = lambda form: Step(form, config, parameters, given, autocast("fp64", "cpu"))
            reference = Reference(make("published"))
            for form in COMPILED:
                found = reference.compare(make(form), "fp64")
                name = f"small {form} fp64" + (" normalised" if normalised else "")
                if not self.right(name, "fp64", found):
                    sys.exit("the rearranged form is wrong")
        torch.set_default_dtype(torch.float)

    # Inputs

    def inputs(self, what, kind, pairs):
        """A batch or a tile with its parameters, and its name."""
        given = self.given
        if given.file:
            batch, parameters, self.config = gpu_inputs.read(given.file, self.device)
            return batch, parameters
        make = gpu_inputs.training if what == "train" else gpu_inputs.embeddings
        sizes = given.regions, given.words, kind, pairs, given.seed
        return make(self.config, *sizes, self.device)

    def cases(self, what):
        """Lengths and numbers of pairs, most important first."""
        if self.given.file:
            with_images = gpu_inputs.safe_open(self.given.file, "pt").keys()
            fits = ("in.images" in with_images) == (what == "train")
            return [("file", 0)] if fits else []
        if what not in self.given.only:
            return []
        pairs = self.given.batches if what == "train" else [self.given.tile]
        return [(kind, count) for count in pairs for kind in self.given.lengths]

    def save(self, folder):
        os.makedirs(folder, exist_ok=True)
        for what in ("train", "score"):
            for kind, pairs in self.cases(what):
                path = os.path.join(folder, f"{what}-{pairs}-{kind}.safetensors")
                gpu_inputs.write(path, *self.inputs(what, kind, pairs), self.config)
                self.say(path)

    # What is measured

    def plain(self):
        side, elements = (8192, 1 << 30) if self.cuda else (512, 1 << 22)
        for precision in self.given.precisions:
            use(precision)
            kind = torch.bfloat16 if precision == "bf16" else torch.float
            a, b = (torch.randn(side, side, device=self.device, dtype=kind) for _ in range(2))
            out = torch.empty_like(a)
            found = self.measure(lambda: torch.mm(a, b, out=out))
            found["tflops"] = round(2 * side**3 / found["ms"] / 1e9, 1)
            self.record["plain"][f"product {side}^3 {precision}"] = found
        a = torch.zeros(elements, device=self.device)
        b = torch.empty_like(a)
        found = self.measure(lambda: b.copy_(a))
        # Read and written.
        found["gb_per_s"] = round(2 * 4 * elements / found["ms"] / 1e6, 1)
        self.record["plain"][f"copy of {4 * elements >> 20} MiB"] = found
        for name, found in self.record["plain"].items():
            self.say(f"{name}: {found}")
        self.write()
        del a, b, out
        if self.cuda:
            torch.cuda.empty_cache()

    def score(self, kind, pairs):
        given, parameters = self.inputs("score", kind, pairs)
        regions, padded, lengths = (given[n] for n in ("image_emb", "caption_emb", "lengths"))
        text = layout(lengths, self.device)
        words = padded.transpose(0, 1)[text.mask.T]
        memory = Memory(self.config["embed_size"]).to(self.device)
        short = lambda name: name.removeprefix("mem_t2i.")
        memory.load_state_dict({short(n): p for n, p in parameters.items() if "t2i" in n})
        published = Published(self.config, memory)
        shape = {"what": "score", "lengths": kind, "images": len(regions)}
        shape |= {"captions": len(lengths), "words": len(words), "longest": len(text.sizes)}
        use("fp32")
        with torch.no_grad():
            wanted = None if self.given.warm else published.scores(regions, padded, lengths)
        for precision, form in itertools.product(
            self.given.precisions, ("rearranged", "published")
        ):
            cast, run = autocast(precision, self.device), torch.compile(score, **self.compiled)

            def call():
                with torch.no_grad(), cast(True):
                    if form == "published":
                        return published.scores(regions, padded, lengths)
                    return run(self.config, memory, regions, words, text)

            def measured(name):
                began = time.perf_counter()
                found = call()
                self.wait()
                first = time.perf_counter() - began
                if self.given.warm:
                    return
                off = {"similarity": (found - wanted).abs().max().item()}
                if not self.right(name, precision, off):
                    return
                counted = sum(operations(self.config, regions.shape[1], len(regions), len(words)))
                result = shape | {"form": form, "precision": precision} | self.measure(call)
                result["pairs_per_s"] = round(1e3 * wanted.numel() / result["ms"])
                result["tflops_rearranged"] = round(counted / result["ms"] / 1e9, 1)
                self.keep(name, result | {"first_call_s": round(first, 1)})

            self.attempt(f"score {kind} {len(regions)}", form, precision, measured)

    def attempt(self, case, form, precision, measured):
        """Measures a form if it is wanted and there is time. What fails is reported."""
        name = f"{case} {form} {precision}"
        if form not in [*self.given.forms, "rearranged"] or self.given.warm and form == "published":
            return
        if self.late(name):
            return
        use(precision)
        try:
            measured(name)
        except Exception as error:
            if self.given.warm:
                raise
            self.record["wrong"].append(f"{name}: {type(error).__name__}: {error}"[:400])
            self.say(self.record["wrong"][-1])

    def train(self, kind, pairs):
        given, parameters = self.inputs("train", kind, pairs)
        parameters, lengths = mine(parameters), given["lengths"]
        make = lambda form, precision: Step(
            form, self.config, parameters, given, autocast(precision, self.device), self.compiled
        )
        shape = {"what": "train", "lengths": kind, "batch": len(lengths)}
        shape |= {"words": int(lengths.sum()), "longest": int(lengths[0])}
        sizes = given["images"].shape[1], len(lengths), shape["words"]
        scoring, of_tables = operations(self.config, *sizes)
        counted = scoring * (1 + 9 / len(lengths)) + 3 * of_tables
        use("fp32")
        reference = None if self.given.warm else Reference(make("published", "fp32"))
        # The sparse form first: it is the rival.
        for form, precision in itertools.product(reversed(FORMS), self.given.precisions):

            def measured(name):
                step, began = make(form, precision), time.perf_counter()
                if self.given.warm:
                    return step.gradients()
                off = reference.compare(step, precision)
                first = time.perf_counter() - began
                if not self.right(name, precision, off):
                    return
                result = shape | {"form": form, "precision": precision} | self.measure(step)
                result["first_call_s"] = round(first, 1)
                if precision == "bf16" and self.cuda and form != "published":
                    result |= self.half_gru(name, reference, make(form, precision), result["ms"])
                    step.half_gru = result["gru"] == "half"
                result |= self.last(step)
                result["tflops_sparse"] = round(counted / result["ms"] / 1e9, 1)
                self.keep(name, result)
                if form != "published":
                    self.graphs.append((name, result, step))

            self.attempt(f"train {kind} {len(lengths)}", form, precision, measured)

    def last(self, step):
        """The loss after all steps, and the memory that a step takes."""
        if not self.cuda:
            return {"loss": float(step())}
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        loss = float(step())
        taken = torch.cuda.max_memory_allocated() - held
        return {"loss": loss, "working_gb": round(taken / 1e9, 1)}

    def half_gru(self, name, reference, step, ms):
        """With the GRU in half precision, if that is right and faster."""
        step.half_gru = True
        if self.right(f"{name}, half GRU", "bf16", reference.compare(step, "bf16")):
            found = self.measure(step)
            if found["ms"] < ms:
                return found | {"gru": "half", "ms_gru_tf32": ms}
            return {"gru": "tf32", "ms_gru_half": found["ms"]}
        return {"gru": "tf32"}

    def capture(self, name, result, step):
        """The whole step as one CUDA graph."""
        if self.late(f"{name}, CUDA graph"):
            return
        use(result["precision"])
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = step()
            result["graph"] = self.measure(graph.replay) | {"loss": float(loss)}
        except Exception as error:
            result["graph"] = {"failed": f"{type(error).__name__}: {error}"[:200]}
        self.say(f"{name}, CUDA graph: {result['graph']}")
        self.write()

    # The run

    def compile_beforehand(self):
        """Other processes compile everything, several at a time."""
        if not self.cuda or not self.given.compilers or self.given.mode != "default":
            return
        jobs = []
        for what, form in [("score", "rearranged"), ("train", "sparse"), ("train", "dense")]:
            for (kind, pairs), precision in itertools.product(
                self.cases(what), self.given.precisions
            ):
                if form in self.given.forms or form == "rearranged":
                    size = (
                        [f"--{'batches' if what == 'train' else 'tile'}={pairs}"] if pairs else []
                    )
                    lengths = [f"--lengths={kind}"] if pairs else []
                    jobs.append([f"--only={what}", f"--forms={form}", *size, *lengths])
                    jobs[-1].append(f"--precisions={precision}")
        environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "2"}
        running, failed = [], []
        give_up = BEGAN + 0.6 * self.given.seconds
        while (jobs or running) and time.perf_counter() < give_up:
            while jobs and len(running) < self.given.compilers:
                command = [sys.executable, __file__, *sys.argv[1:], "--warm", *jobs.pop(0)]
                quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                running.append(subprocess.Popen(command, env=environment, **quiet))
            time.sleep(0.05)
            failed += [job.args[-4:] for job in running if job.poll()]
            running = [job for job in running if job.poll() is None]
        for job in running:
            job.kill()
            job.wait()
        self.say(f"compiled beforehand; {len(jobs) + len(running)} left, failed: {failed}")

    def run(self):
        imram_gpu.ALIGN = self.given.align
        if self.given.save:
            return self.save(self.given.save)
        if not self.given.warm:
            if "plain" in self.given.only and not self.given.file:
                self.plain()
            self.small()
            self.compile_beforehand()
        for what in ("score", "train"):
            for case in self.cases(what):
                getattr(self, what)(*case)
        if self.given.warm:
            return
        if self.cuda and not self.given.no_graphs:
            for each in self.graphs:
                self.capture(*each)
        self.record["seconds"] = round(time.perf_counter() - BEGAN, 1)
        self.write()
        print(self.table())
        print(json.dumps(self.record, separators=(",", ":")))

    def table(self):
        lines = ["", "| | lengths | form | precision | ms | least..most | CUDA graph | pairs/s |"]
        lines.append("|---|---|---|---|---:|---:|---:|---:|")
        for one in self.record["results"]:
            size = one.get("batch", one.get("images"))
            graph = one.get("graph", {}).get("ms", "")
            cells = [f"{one['what']} {size}", one["lengths"], one["form"], one["precision"]]
            cells += [f"{one['ms']:.2f}", f"{one['least']:.2f}..{one['most']:.2f}"]
            cells += [f"{graph:.2f}" if graph else "", str(one.get("pairs_per_s", ""))]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


if __name__ == "__main__":
    torch._dynamo.config.recompile_limit = 64
    # Lets the cache keep graphs with our own gradients.
    torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True
    Bench(options()).run()
