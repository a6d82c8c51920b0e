// Returns the name of the focused element, or null for the page itself, and whether the focus is
// visible.
(() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  at.dataset.visited = "yes";
  const style = getComputedStyle(at);
  const box = at.getBoundingClientRect();
  const name = at.id || at.getAttribute("aria-label") || at.textContent.trim().slice(0, 30) || at.tagName;
  return { name, seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2, shown: box.width > 0 && box.height > 0 };
})()
