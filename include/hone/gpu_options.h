// What a recipe asks of a GPU.
#pragma once

#include "hone/config.h"

namespace hone {

// Of products in fp32: as they are, or of factors that are rounded to TF32's 11 bits.
enum class MatmulPrecision { highest, high };
template <>
inline constexpr auto config::enum_names<MatmulPrecision> = std::to_array<std::pair<MatmulPrecision, std::string_view>>(
    {{MatmulPrecision::highest, "highest"}, {MatmulPrecision::high, "high"}});

// Whether it has to give the same bits twice.
enum class Determinism { strict, fast };
template <>
inline constexpr auto config::enum_names<Determinism> = std::to_array<std::pair<Determinism, std::string_view>>(
    {{Determinism::strict, "strict"}, {Determinism::fast, "fast"}});

// Whether it remembers the work of a micro-batch and does it again in one go: where that helps, wherever it can be had,
// or nowhere.
enum class Graphs { automatic, always, never };
template <>
inline constexpr auto config::enum_names<Graphs> = std::to_array<std::pair<Graphs, std::string_view>>(
    {{Graphs::automatic, "auto"}, {Graphs::always, "always"}, {Graphs::never, "never"}});

}  // namespace hone
