// Controls that are shown and that the tabulator has not come by. Of rows it comes by one, and
// arrow keys go on from there.
(() => {
  const found = [...document.querySelectorAll(":is(a[href], button, input, select, summary):not([tabindex='-1']), [tabindex='0']")];
  const shown = found.filter((one) => one.checkVisibility() && !one.disabled && !one.dataset.visited && !one.closest("noscript"));
  return shown.map((one) => one.id || one.textContent.trim().slice(0, 30) || one.tagName);
})()
