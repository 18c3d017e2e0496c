"use strict";
// Orders the words of topics by the relevance that a slider chooses, and opens what is folded for
// links and for paper. The page has all of its data; nothing is fetched or evaluated, and words of
// the data are only ever text.
{
  const lists = document.getElementById("words-by-relevance");
  const slider = document.getElementById("relevance");
  if (lists && slider) {
    const topics = JSON.parse(lists.textContent);
    const show = () => {
      const step = Number(slider.value);
      document.getElementById("relevance-shown").textContent = (step / 10).toFixed(1);
      for (const { card, words, orders } of topics) {
        const bars = document.getElementById(card).querySelector(".bars").children;
        const chosen = orders[step].map((place) => words[place]);
        const longest = Math.max(...chosen.map((word) => word[1])) || 1;
        chosen.forEach(([name, share], row) => {
          const [label, track, value] = [0, 1, 2].map((part) => bars[3 * row + part]);
          label.textContent = label.title = name;
          track.firstChild.style.width = (100 * share) / longest + "%";
          value.textContent = (100 * share).toFixed(1) + "%";
        });
      }
    };
    slider.addEventListener("input", show);
    slider.closest("form").hidden = false;
    show(); // browsers keep the place of a slider when a page is loaded again
  }

  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (folded && !folded.open) {
      folded.open = true;
      target.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", reveal);
  reveal();

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
}
