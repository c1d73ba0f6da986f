// What codes of eight bits or fewer stand for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hub/places.h"

namespace hone::hub {

// Of the 256 codes of a type: F8_E4M3, F8_E5M2, I8; none: it is no such type.
std::vector<float> numbers_of_type(const std::string& dtype);
// Whole numbers from 0 on, less so many.
std::vector<float> numbers_from(std::int64_t less);
// A tensor's, in fp32: F32, BF16, F16, and, where they may be, powers of two in F8_E8M0 or U8. Error(checkpoint): of
// another type, or one is infinite or no number.
std::vector<float> read_scale_numbers(const SafetensorsSet::Place& place, bool powers);
// I32. Error(checkpoint): of another type.
std::vector<std::uint32_t> read_words(const SafetensorsSet::Place& place);

}  // namespace hone::hub
