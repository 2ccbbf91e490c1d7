// Starts the scripts of the page. Everything can be read without them.

/** Brings a part of the page to life. */
function enhance(root) {
  root.querySelectorAll("figure.plot:not(.map)").forEach(enhanceChart);
  root.querySelectorAll("figure.map").forEach(enhanceMap);
  root.querySelectorAll(".gallery").forEach(enhanceGallery);
  const section = root.id || "page";
  root.querySelectorAll(".scroll").forEach((frame, at) => enhanceTable(frame, `${section}-${at}`));
}

document.documentElement.classList.add("scripted");
document.querySelectorAll("main > section").forEach(enhance);
enhanceContents();
// Closed parts would be missing on paper.
addEventListener("beforeprint", () => document.querySelectorAll("main details").forEach((part) => (part.open = true)));
