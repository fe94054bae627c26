/* The order of the site's search: pages that say how before pages that say why. The numbers below `score` are Sphinx's own. */
const RANKS = [
  [/^docs\/(tutorial|how-to)\/(?!README)/, 3],
  [/^docs\/(reference|production|migrate)\//, 2],
  [/^docs\/(explanation\/|glossary)/, 1],
  [/^docs\/decisions\//, -1000],
  [/^[A-Z_]+$|^docs\/(evidence|maintainers)\//, -500], // CHANGELOG, CONTRIBUTING
];

var Scorer = {
  score: ([page, , , , score]) => score + (RANKS.find(([pattern]) => pattern.test(page)) ?? [, 0])[1],
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
