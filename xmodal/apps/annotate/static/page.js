// Sliders without a starting value, and keys for all answers and for the start.
"use strict";

const form = document.getElementById("answer");
const start = document.getElementById("start");

if (start) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.repeat && !event.target.closest("a")) start.click();
  });
}

if (form) {
  const slider = document.getElementById("slider");
  const stored = form.querySelector('input[type="hidden"]');
  const choices = [...form.querySelectorAll('input[type="radio"]')];
  const send = form.querySelector('button[type="submit"]');

  const isAnswered = () => (slider ? stored.value !== "" : choices.some((each) => each.checked));
  const update = () => (send.disabled = !isAnswered());

  // Without points, raters neither see, hear nor type a number.
  const points = form.querySelectorAll("[data-point]");
  const describe = (value) => {
    const near = Math.round(value);
    const place = value > near ? "Slightly above" : value < near ? "Slightly below" : "At";
    return `${points.length ? `${value}: ` : ""}${place} "${slider.dataset.scale.split("|")[near]}"`;
  };
  const moved = () => {
    slider.classList.remove("unset");
    stored.value = slider.value;
    slider.setAttribute("aria-valuetext", describe(Number(slider.value)));
    update();
  };
  const move = (value) => {
    slider.value = value;
    moved();
  };

  if (slider) {
    slider.focus(); // autofocus may come after the first key
    slider.addEventListener("input", moved);
    // A click at the place where the slider waits is an answer as well.
    slider.addEventListener("pointerup", moved);
    slider.setAttribute(
      "aria-valuetext",
      stored.value === "" ? "No answer yet" : describe(Number(slider.value)),
    );
    points.forEach((point) =>
      point.addEventListener("click", () => {
        move(point.dataset.point);
        slider.focus();
      }),
    );
  }
  choices.forEach((each) => each.addEventListener("change", update));

  const steps = {
    ArrowLeft: -0.1, ArrowDown: -0.1, ArrowRight: 0.1, ArrowUp: 0.1, PageDown: -1, PageUp: 1,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.type === "text" && event.key !== "Enter") return;
    const onLink = event.target.closest("a, button, summary");
    if (event.key === "Enter" && !onLink) {
      event.preventDefault();
      if (isAnswered() && !send.disabled) form.requestSubmit();
    } else if (points.length && /^[0-5]$/.test(event.key)) {
      move(event.key);
      slider.focus(); // for the arrows that follow
    } else if (slider && event.target === slider && event.key in steps) {
      event.preventDefault();
      move(Number(slider.value) + steps[event.key]);
    } else if (choices[Number(event.key) - 1]) {
      choices[Number(event.key) - 1].click();
      choices[Number(event.key) - 1].focus();
    }
  });

  form.addEventListener("submit", () => setTimeout(() => (send.disabled = true)));
  // Also where the browser brings a page back.
  addEventListener("pageshow", update);
}
