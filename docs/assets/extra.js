// arithmatex (generic) wraps each formula in \(…\) or \[…\]; KaTeX renders those and nothing else.
document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll(".arithmatex")) {
    renderMathInElement(formula, {
      delimiters: [
        { left: "\\(", right: "\\)", display: false },
        { left: "\\[", right: "\\]", display: true },
      ],
    });
  }
  // A wide picture begins at its middle on a phone.
  for (const box of document.querySelectorAll(".scroll")) {
    box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
  }
});
