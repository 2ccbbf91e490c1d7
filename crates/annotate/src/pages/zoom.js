// Looking closer: fit, pixel for pixel, and everything between; drag or arrow keys to look around.

const STEP = 1.4;
const MOST = 16;
const ARROWS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export class Zoom {
  /** `stage` is the frame, `picture` the image in it; `onChange` hears the scale. */
  constructor(stage, picture, onChange) {
    this.stage = stage;
    this.picture = picture;
    this.onChange = onChange;
    this.drag = null;
    this.reset();
    stage.addEventListener("keydown", (event) => this.key(event));
    stage.addEventListener("pointerdown", (event) => this.press(event));
    stage.addEventListener("pointermove", (event) => this.move(event));
    stage.addEventListener("pointerup", (event) => this.release(event));
    stage.addEventListener("pointercancel", () => (this.drag = null));
    window.addEventListener("resize", () => this.reset());
  }

  get closer() {
    return this.scale > 1;
  }

  /** The whole image again. */
  reset() {
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.draw();
  }

  /** Between the whole image and its own pixels, or twice the size where those would be smaller. */
  toggle(atX = 0, atY = 0) {
    if (this.closer) return this.reset();
    const { naturalWidth, naturalHeight } = this.picture;
    const { clientWidth, clientHeight } = this.stage;
    const fitted = Math.min(clientWidth / naturalWidth, clientHeight / naturalHeight);
    const pixels = 1 / (fitted * (window.devicePixelRatio || 1));
    this.to(pixels > 1.2 ? pixels : 2, atX, atY);
  }

  in() {
    this.to(this.scale * STEP);
  }

  out() {
    this.to(this.scale / STEP);
  }

  /** To a scale; the point at a distance from the middle of the stage stays where it is. */
  to(wanted, atX = 0, atY = 0) {
    const scale = Math.min(MOST, Math.max(1, wanted));
    const factor = scale / this.scale;
    this.x = atX - (atX - this.x) * factor;
    this.y = atY - (atY - this.y) * factor;
    this.scale = scale;
    this.draw();
  }

  draw() {
    const reachX = ((this.scale - 1) * this.stage.clientWidth) / 2;
    const reachY = ((this.scale - 1) * this.stage.clientHeight) / 2;
    this.x = Math.min(reachX, Math.max(-reachX, this.x));
    this.y = Math.min(reachY, Math.max(-reachY, this.y));
    this.picture.style.transform = this.closer
      ? `translate(${this.x}px, ${this.y}px) scale(${this.scale})`
      : "";
    this.stage.classList.toggle("closer", this.closer);
    this.onChange(this.scale);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.stage) return;
    if (event.key in ARROWS && this.closer) {
      const [right, down] = ARROWS[event.key];
      this.x += right * 80;
      this.y += down * 80;
      this.draw();
    } else if (event.key === "z" || event.key === "Z" || event.key === "Enter") this.toggle();
    else if (event.key === "+" || event.key === "=") this.in();
    else if (event.key === "-") this.out();
    else if (event.key === "0") this.reset();
    else return;
    event.preventDefault();
  }

  press(event) {
    if (event.button !== 0 || event.target.closest("button")) return;
    this.drag = { fromX: event.clientX, fromY: event.clientY, x: this.x, y: this.y, moved: false };
  }

  move(event) {
    if (!this.drag) return;
    const right = event.clientX - this.drag.fromX;
    const down = event.clientY - this.drag.fromY;
    if (!this.drag.moved && Math.hypot(right, down) < 5) return;
    if (!this.drag.moved && this.closer) this.stage.setPointerCapture(event.pointerId);
    this.drag.moved = true;
    if (!this.closer) return;
    this.x = this.drag.x + right;
    this.y = this.drag.y + down;
    this.draw();
  }

  release(event) {
    if (this.drag && !this.drag.moved) {
      const frame = this.stage.getBoundingClientRect();
      this.toggle(
        event.clientX - frame.left - frame.width / 2,
        event.clientY - frame.top - frame.height / 2,
      );
    }
    this.drag = null;
  }
}
