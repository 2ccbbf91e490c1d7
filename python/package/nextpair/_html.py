"""Picks as a table of a notebook."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._picks import Near, Pick, Picks

_SHOWN = 20
_PIXELS = 112
_TYPES = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png", ".gif": "gif", ".webp": "webp"}
# Larger files are not put into a notebook as they are.
_MOST_BYTES = 200_000


def table(picks: Picks, pictures: Sequence[Any] | None, of_learners: Mapping[int, Any]) -> str:
    """The first picks, with thumbnails where a picture or an id is the path of one."""
    shown = picks[:_SHOWN]
    images = [_thumbnail(pictures[at] if pictures else pick.id) for at, pick in enumerate(shown)]
    head = ["", *(["picture"] if any(images) else []), "id", "score", "hits", "why"]
    rows = "".join(
        _row(pick, image, any(images), of_learners) for pick, image in zip(shown, images, strict=True)
    )
    title = f"{len(picks)} of {picks.pool} items by {escape(picks.strategy)}"
    if picks.effect is not None:
        title += f": {picks.effect}"
    warnings = "".join(f"<p><b>warning</b> {escape(str(finding))}</p>" for finding in picks.warnings)
    more = f"<p>and {len(picks) - len(shown)} more</p>" if len(picks) > len(shown) else ""
    heads = "".join(f'<th scope="col">{name}</th>' for name in head)
    return f"{warnings}<table><caption>{title}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _row(pick: Pick, image: str | None, pictured: bool, of_learners: Mapping[int, Any]) -> str:
    reasons = [
        f"{escape(str(reason.anchor_id))}: {reason.similarity:.3f}, threshold {reason.threshold:.3f}, "
        f"own {reason.own:.3f}"
        for reason in pick.why
    ]
    why = "<br>".join([*reasons, *(_near(near, of_learners.get(near.index)) for near in pick.near)])
    name = escape(str(pick.id))
    cells = [str(pick.rank), name, f"{pick.score:.4g}", "" if pick.hits is None else str(pick.hits), why]
    if pictured:
        cells.insert(1, f'<img src="{image}" alt="{name}" style="max-width:{_PIXELS}px">' if image else "")
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _near(near: Near, picture: Any) -> str:
    name = escape(str(near.id))
    if near.paired:
        return f"nearest paired: {name}, cosine {near.value:.3f}"
    image = _thumbnail(picture if picture is not None else near.id)
    shown = f'<img src="{image}" alt="" style="max-width:{_PIXELS // 2}px"> ' if image else ""
    return f"{shown}{name}: learns {near.value:.0%}"


def _thumbnail(given: Any) -> str | None:
    """The address of a small picture, if this is the path of one."""
    if not isinstance(given, (str, PathLike)):
        return None
    path = Path(given)
    kind = _TYPES.get(path.suffix.lower())
    try:
        if kind is None or not path.is_file():
            return None
        content = _small(path)
        if content is None:
            content = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else None
        else:
            kind = "jpeg"
    except (OSError, ValueError):  # whatever is wrong with it, the table is not
        return None
    return None if content is None else f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _small(path: Path) -> bytes | None:
    """A smaller copy, if Pillow is installed."""
    try:
        from PIL import Image
    except ImportError:
        return None
    with Image.open(path) as image:
        image.thumbnail((_PIXELS, _PIXELS))
        out = io.BytesIO()
        image.convert("RGB").save(out, "JPEG")
        return out.getvalue()
