// Rows whose documents are shorter than they could be: the warm-up of lengths.
#pragma once

#include "hone/data.h"

namespace hone::data {

// Cuts documents of more than `most` tokens. A text, all of whose targets are learnt, becomes several documents, and no
// target is lost; one with a prompt, or whatever else is not learnt, loses what follows its last target, then its
// start, together with a turn that would be cut through, and the end of a last turn that leaves its prompt no room. A
// first token that is `bos` stays.
void shorten(HostRow& row, std::int64_t most, std::int32_t bos);

}  // namespace hone::data
