// What of a text is its final answer, and whether two final answers are the same. It is no computer algebra.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hone::rewards {

// The content of the last \boxed{...} whose braces are closed; else what follows the last #### (as in GSM8K) up to the
// end of its line; else the whole text.
std::string_view final_answer(std::string_view text);

// As it is compared: without the full stop behind it, $ $, \( \), ** ** around it, the parentheses of a choice (B),
// \text{ } and the like, degrees, and with spaces only where they keep words or numbers apart.
std::string plain_answer(std::string_view text);

// Of a plain answer: 42, -1,234.5, 1e-3, 3/4, \frac{3}{4}; a $ before it and a % behind it count for nothing.
std::optional<double> number_of(std::string_view plain);

// Of plain answers: as numbers where both are numbers, else as texts. Numbers are the same within 1e-6 of the larger
// one; a whole number is no other one, and no broken one but for what rounding does to sums.
bool same_answer(std::string_view a, std::string_view b, bool case_sensitive);

}  // namespace hone::rewards
