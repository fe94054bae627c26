/* A button that copies a block. Of a session of a shell, it copies the commands alone. */
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight > pre")) {
    const kind = block.closest("[class*='highlight-']").className;
    if (/highlight-text/.test(kind)) continue; // pictures, logs and signatures
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const text = block.innerText;
      const commands = text.split("\n").filter((line) => line.startsWith("$ "));
      const copied = /highlight-console/.test(kind) ? commands.map((line) => line.slice(2)).join("\n") + "\n" : text;
      try {
        await navigator.clipboard.writeText(copied);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    block.parentElement.append(button);
  }
});
