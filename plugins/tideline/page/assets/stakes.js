/**
 * What is at stake in an incident.
 * @module
 */

/** How many records are at stake at most; null where nobody knows. @param {Object} one Incident @returns {number|null} */
export function mostAtStake(one) {
  const known = one.lost_start !== null && one.lost_end !== null;
  return one.offsets_at_stake ?? (known ? one.lost_end - one.lost_start : null);
}
