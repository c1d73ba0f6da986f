// A section in the place of a list of sections.
#pragma once

#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::config {

// {path: a} where a list of sections is expected is [{path: a}], and {0: {path: a}, 1: ...} the list of these, unless
// it may reach into a list below it. Of an entry with an unknown key only the list has a mark: report_unknown() leaves
// its number out. rows: of the options struct that `node` is to be read by.
void wrap_single_entries(Node& node, const std::vector<OptionInfo>& rows, bool is_layer = false);

}  // namespace hone::config
