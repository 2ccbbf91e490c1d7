# %% [markdown]
# # Choose what to caption
#
# You have photographs, captions for some of them, and money for a few more. Which ones should somebody caption next?
# nextpair picks those that would teach a retrieval model most.
#
# Everything here is made up, so that it runs anywhere in a minute: the photographs are generated scenes, and the embeddings
# come from a small linear model. With CLIP, SigLIP or a model of your own, only the second cell changes.

# %%
import json
import sys
from pathlib import Path

import numpy as np

import nextpair

folder = Path(sys.argv[1] if len(sys.argv) == 2 and Path(sys.argv[1]).is_dir() else ".")
photos = nextpair.Dataset.scenes(folder / "photos", 400, progress=False)
photos

# %% [markdown]
# ## Embeddings in
#
# One vector per image and per caption, in one space. Half of the photographs are captioned; of the others only the image is known.

# %%
items = [item for item in photos if item.split == "train"]
rows = [place for place, item in enumerate(photos) if item.split == "train"]
regions = photos.features("image")[rows].astype(np.float64)  # several vectors per image
pictures = regions.reshape(len(rows), -1, regions.shape[-1]).mean(axis=1)
pictures -= pictures.mean(axis=0)
paired, unpaired = items[: len(items) // 2], items[len(items) // 2 :]

words = sorted({word for item in paired for word in item.captions[0].lower().split()})
counts = np.array([[item.captions[0].lower().split().count(word) for word in words] for item in paired], float)
counts -= counts.mean(axis=0)
images, pool = pictures[: len(paired)], pictures[len(paired) :]
# What words say about an image, by ridge regression: the text tower of this little model.
texts = counts @ np.linalg.solve(counts.T @ counts + 10 * np.eye(len(words)), counts.T @ images)
print(nextpair.recall(images, texts))

# %% [markdown]
# ## Picks out, with pictures
#
# Each pick is the photograph whose caption makes predictions for all others least uncertain, after those before it.

# %%
picks = nextpair.select(
    images,
    texts,
    pool,
    budget=20,
    ids=[item.id for item in unpaired],
    pair_ids=[item.id for item in paired],
    pictures=[item.file for item in unpaired],
    guard="off",
)
print(picks)
picks

# %%
# The paper's choice has reasons: a pick is more similar to the caption of some other photograph than that photograph's rivals are.
pair_ids = [item.id for item in paired]
best = nextpair.select(images, texts, pool, 20, "hard-negative", ids=[item.id for item in unpaired], pair_ids=pair_ids, guard="off")[0]
confused = next(item for item in paired if item.id == best.why[0].anchor_id)
print(f"{best.id} looks like {confused.captions[0]!r}")
print(f"similarity {best.why[0].similarity:.2f}; its hardest rival so far {best.why[0].threshold:.2f}; its own image {best.why[0].own:.2f}")

# %% [markdown]
# ## Does it pay? Rehearse before you buy
#
# A rehearsal hides captions that you have, buys them back by several strategies, trains your model each time, and tells what a caption
# of each strategy is worth in random ones. This one is far too small to be sure: a tiny model, four seeds. It says so.

# %%
rehearsal = nextpair.rehearse(
    photos,
    budget=20,
    model={"architecture": "vse", "dim": 16, "word_dim": 16},
    training={"epochs": 2, "batch": 16, "validate_last": 0},
    strategies=["v-optimal", "novelty"],
    seeds=4,
    out=folder / "rehearsal",
    progress=False,
)
print(rehearsal.sentence)
rehearsal.to_pandas() if "pandas" in sys.modules else rehearsal

# %% [markdown]
# ## Let people caption
#
# The app runs beside the notebook. Its link opens it; `app.wait()` returns when everything is answered.

# %%
app = nextpair.annotate(picks, photos, out=folder / "picks.jsonl")
app

# %% [markdown]
# Nobody is there in an example, so the answers are the captions that the generated scenes have anyway.

# %%
app.stop()
known = {item.id: item.captions[0] for item in unpaired}
answers = folder / "answers.jsonl"
answers.write_text("".join(json.dumps({"id": pick.id, "caption": f"Look : {known[pick.id]}"}) + "\n" for pick in picks))
larger = photos.enlarge(answers, folder / "photos-2", progress=False)
print(f"{larger.captions} new captions; train on {larger.dataset.folder.name}, and choose again.")
