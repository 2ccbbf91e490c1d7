// The contents: closed on phones, and marking what is read.

let watched = null;

function enhanceContents() {
  const details = document.querySelector(".contents details");
  if (!details) return;
  const wide = matchMedia("(min-width: 68rem)");
  const fit = () => (details.open = wide.matches);
  if (!details.dataset.fitted) {
    details.dataset.fitted = "yes";
    wide.addEventListener("change", fit);
    details.addEventListener("click", (event) => {
      if (event.target.tagName === "A" && !wide.matches) details.open = false;
    });
    fit();
  }
  const links = new Map([...details.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  const inView = new Set();
  watched?.disconnect();
  watched = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) inView.add(target.id);
        else inView.delete(target.id);
      }
      const first = [...links.keys()].find((id) => inView.has(id));
      for (const [id, link] of links) {
        if (id === first) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-10% 0px -60%" },
  );
  document.querySelectorAll("main > section").forEach((section) => watched.observe(section));
}
