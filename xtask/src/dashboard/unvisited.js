// Visible controls that Tab did not reach. In tables only one row is a tab stop, and arrow keys
// reach the others.
(() => {
  const found = [...document.querySelectorAll(":is(a[href], button, input, select, summary):not([tabindex='-1']), [tabindex='0']")];
  const shown = found.filter((one) => one.checkVisibility() && !one.disabled && !one.dataset.visited && !one.closest("noscript"));
  return shown.map((one) => one.id || one.textContent.trim().slice(0, 30) || one.tagName);
})()
