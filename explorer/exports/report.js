/* In the report: draw the picture that can be explored, and let the files inside be saved. Nothing is sent anywhere. */

const reportPart = (id) => document.getElementById(id);

// Shown first: a canvas in a hidden element has no size to fit the graph to.
document.documentElement.classList.add("interactive");
try {
  globalThis.placementPicture.mountStandalone(
    reportPart("picture"), globalThis.placementPicture.bytesFromBase64(reportPart("picture-data").textContent.trim()), "auto",
  );
} catch (error) {
  // The figure that stands in for it says the same.
  document.documentElement.classList.remove("interactive");
  console.error(error);
}

for (const button of document.querySelectorAll("button.save")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([reportPart(button.dataset.of).textContent], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = button.dataset.name;
    link.click();
    URL.revokeObjectURL(address);
  });
}
