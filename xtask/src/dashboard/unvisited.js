// Controls that are shown and that the tabulator has not come by.
(() => {
  const found = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")];
  const shown = found.filter((one) => one.checkVisibility() && !one.disabled && !one.dataset.visited && !one.closest("noscript"));
  return shown.map((one) => one.id || one.textContent.trim().slice(0, 30) || one.tagName);
})()
