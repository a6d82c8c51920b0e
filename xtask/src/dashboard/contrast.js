// Computes contrast as WCAG 2 defines it: of every visible text against its background, and of
// graphics against theirs. Returns a list of those too low for AA.
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "#000";
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0.99) return colour;
    }
    return [255, 255, 255, 1];
  };
  const low = [];
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const [front, back] = [rgba(style.color), behind(element)];
    const key = `${front}/${back}/${wanted}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const found = ratio(front, back);
    if (found < wanted) low.push(`"${text.slice(0, 30)}": ${found.toFixed(2)}, at least ${wanted}`);
  }
  const root = getComputedStyle(document.documentElement);
  const named = (name) => rgba(root.getPropertyValue(`--${name}`).trim());
  const drawn = [
    ["soft", "card", 4.5], ["ink", "card", 4.5], ["alarm", "card", 4.5], ["cold", "card", 4.5], ["hot", "card", 4.5], ["soft", "room", 4.5], ["ink", "room", 4.5],
    ["soft", "well", 4.5], ["ink", "hot-ground", 4.5], ["ink", "well", 4.5], ["cold", "room", 3], ["hot", "hot-ground", 3], ["hot", "room", 3], ["second", "card", 3],
    ["first", "card", 3], ["first", "room", 3], ["first", "well", 3], ["alarm", "well", 3], ["first", "ground", 4.5], ["second", "ground", 4.5],
  ];
  for (const [front, back, wanted] of drawn) {
    const found = ratio(named(front), named(back));
    if (found < wanted) low.push(`${front} on ${back}: ${found.toFixed(2)}, at least ${wanted}`);
  }
  return low;
})()
