// Runs a function on elements as soon as they are in the page, whether they were loaded or swapped in.

/** Calls `act` with each element that matches `selector`: with those of the page now, and with those that come later. */
export function whenever(selector, act) {
  const seen = new WeakSet();
  const look = (root) => {
    const found = root.querySelectorAll(selector);
    for (const element of root.matches?.(selector) ? [root, ...found] : found) {
      if (seen.has(element)) continue;
      seen.add(element);
      act(element);
    }
  };
  look(document);
  new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.addedNodes) if (node.nodeType === Node.ELEMENT_NODE) look(node);
  }).observe(document.documentElement, { childList: true, subtree: true });
}
