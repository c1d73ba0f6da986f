// A state space of channels in plain ATen: what lies 1, 2, 4 ... tokens back is taken in at once, for all documents
// (Hillis and Steele, 1986). Some channels at a time, as each token has states of its own meanwhile. Its gradient is
// made by hand: the same, backward.
//
// Letters: N tokens, C channels, J those that are computed at a time, K states of a channel, D documents.
#include "ops/selective_scan.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/reference/table.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops::reference_table {
namespace {

constexpr std::int64_t kMostNumbers = std::int64_t{1} << 26;  // of the states of all tokens at a time

// Where documents begin and end on the device.
struct ScanPlaces {
  ScanPlaces(const std::vector<Span>& spans, std::int64_t tokens, at::Device device) {
    std::vector<std::int64_t> firsts, lasts, outside;
    std::int64_t done = 0;
    const auto skip_to = [&](std::int64_t end) {
      for (; done < end; ++done) outside.push_back(done);
    };
    for (std::size_t d = 0; d < spans.size(); ++d) {
      if (spans[d].end <= spans[d].begin) continue;
      skip_to(spans[d].begin);
      firsts.push_back(spans[d].begin), lasts.push_back(spans[d].end - 1);
      documents.push_back(static_cast<std::int64_t>(d));
      longest = std::max(longest, spans[d].end - spans[d].begin);
      done = spans[d].end;
    }
    skip_to(tokens);
    const auto there = [&](const std::vector<std::int64_t>& numbers) {
      return devices::sent(host::tensor_of(numbers, {std::ssize(numbers)}), device);
    };
    first_D = there(firsts), last_D = there(lasts), outside_O = there(outside);
  }
  at::Tensor first_D, last_D, outside_O;
  std::vector<std::int64_t> documents;  // that have tokens
  std::int64_t longest = 0;
};

const ScanPlaces& scan_places_of(const Documents& documents, const at::Tensor& x_NC) {
  return documents.kept([&] { return ScanPlaces(documents.spans(), x_NC.size(0), x_NC.device()); });
}

// state[t] += decay[t] state[t - 1], from the first token to the last; back: from the last to the first, by
// decay[t] state[t + 1]. Both are used up.
void scan(const at::Tensor& decay_NJK, const at::Tensor& state_NJK, std::int64_t longest, bool back) {
  const std::int64_t tokens = state_NJK.size(0);
  for (std::int64_t far = 1; far < std::min(longest, tokens); far *= 2) {
    const std::int64_t count = tokens - far, to = back ? 0 : far, from = back ? far : 0;
    const at::Tensor decay = decay_NJK.narrow(0, to, count);
    const at::Tensor more = decay * state_NJK.narrow(0, from, count), joint = decay * decay_NJK.narrow(0, from, count);
    state_NJK.narrow(0, to, count).add_(more);
    decay.copy_(joint);
  }
}

// Some channels of what comes in, in fp32 at least.
struct ScanPart {
  ScanPart(const ScanInput& in, std::int64_t first, std::int64_t count)
      : x_NJ(widened(in.x_NC.narrow(1, first, count))),
        step_NJ(in.step_NC.narrow(1, first, count)),
        rate_JK(in.rate_CK.narrow(0, first, count)),
        skip_J(in.skip_C.narrow(0, first, count)),
        written_NJ(x_NJ * step_NJ) {}
  at::Tensor decays() const { return (step_NJ.unsqueeze(-1) * rate_JK).exp_(); }
  at::Tensor taken(const at::Tensor& b_NK) const { return written_NJ.unsqueeze(-1) * b_NK.unsqueeze(1); }
  at::Tensor x_NJ, step_NJ, rate_JK, skip_J, written_NJ;
};

template <class Run>
void each_part(const ScanInput& input, Run&& run) {
  const std::int64_t channels = input.x_NC.size(1);
  const std::int64_t each = std::clamp<std::int64_t>(
      kMostNumbers / (input.x_NC.size(0) * input.b_NK.size(1)), 1, channels);
  for (std::int64_t first = 0; first < channels; first += each) run(first, std::min(each, channels - first));
}

at::Tensor scan_forward(const ScanInput& input, const Documents& documents, const ScanPast& past) {
  const ScanPlaces& places = scan_places_of(documents, input.x_NC);
  const at::Tensor y_NC = at::empty_like(input.x_NC, at::MemoryFormat::Contiguous);
  const at::Tensor b_NK = widened(input.b_NK), c_NK = widened(input.c_NK);
  at::Tensor row_D;
  if (!past.rows.empty()) {
    std::vector<std::int64_t> rows;
    for (const std::int64_t document : places.documents) rows.push_back(past.rows[document]);
    row_D = devices::sent(host::tensor_of(rows, {std::ssize(rows)}), input.x_NC.device());
  }
  each_part(input, [&](std::int64_t first, std::int64_t count) {
    const ScanPart part(input, first, count);
    const at::Tensor decay_NJK = part.decays(), state_NJK = part.taken(b_NK);
    const auto past_RKJ = [&] { return past.state_RKC.narrow(2, first, count); };
    if (row_D.defined()) {
      const at::Tensor held_DJK = past_RKJ().index_select(0, row_D).transpose(1, 2);
      state_NJK.index_add_(0, places.first_D, decay_NJK.index_select(0, places.first_D) * held_DJK);
    }
    decay_NJK.index_fill_(0, places.first_D, 0);
    scan(decay_NJK, state_NJK, places.longest, /*back=*/false);
    const at::Tensor read_NJ = at::matmul(state_NJK, c_NK.unsqueeze(-1)).squeeze(-1) + part.skip_J * part.x_NJ;
    y_NC.narrow(1, first, count).copy_(read_NJ);
    if (row_D.defined())
      past_RKJ().index_copy_(0, row_D, state_NJK.index_select(0, places.last_D).transpose(1, 2));
  });
  return y_NC.index_fill_(0, places.outside_O, 0);
}

// The rows one further on, or back, and zeros at the end.
at::Tensor moved(const at::Tensor& x_N, bool back) {
  const std::int64_t count = x_N.size(0) - 1;
  const at::Tensor none = at::zeros_like(x_N.narrow(0, 0, 1));
  return back ? at::cat({x_N.narrow(0, 1, count), none}) : at::cat({none, x_N.narrow(0, 0, count)});
}

ScanInput scan_backward(const at::Tensor& given, const ScanInput& input, const Documents& documents) {
  const ScanPlaces& places = scan_places_of(documents, input.x_NC);
  const at::Tensor b_NK = widened(input.b_NK), c_NK = widened(input.c_NK);
  const at::Tensor dy_NC = widened(given).index_fill(0, places.outside_O, 0);
  const auto room_for = [](const at::Tensor& x) { return at::empty_like(x, at::MemoryFormat::Contiguous); };
  const ScanInput made{room_for(input.x_NC), room_for(input.step_NC), room_for(input.rate_CK),
                       at::zeros_like(b_NK), at::zeros_like(c_NK),    room_for(input.skip_C)};
  each_part(input, [&](std::int64_t first, std::int64_t count) {
    const ScanPart part(input, first, count);
    const at::Tensor dy_NJ = dy_NC.narrow(1, first, count);
    const at::Tensor decay_NJK = part.decays().index_fill_(0, places.first_D, 0).index_fill_(0, places.outside_O, 0);
    const at::Tensor state_NJK = part.taken(b_NK), dstate_NJK = dy_NJ.unsqueeze(-1) * c_NK.unsqueeze(1);
    scan(decay_NJK.clone(), state_NJK, places.longest, /*back=*/false);
    scan(moved(decay_NJK, /*back=*/true), dstate_NJK, places.longest, /*back=*/true);
    made.c_NK.add_(at::matmul(dy_NJ.unsqueeze(1), state_NJK).squeeze(1));
    made.b_NK.add_(at::matmul(part.written_NJ.unsqueeze(1), dstate_NJK).squeeze(1));
    const at::Tensor dwritten_NJ = at::matmul(dstate_NJK, b_NK.unsqueeze(-1)).squeeze(-1);
    const at::Tensor ddecay_NJK = moved(state_NJK, /*back=*/false).mul_(decay_NJK).mul_(dstate_NJK);
    made.x_NC.narrow(1, first, count).copy_(dwritten_NJ * part.step_NJ + dy_NJ * part.skip_J);
    made.step_NC.narrow(1, first, count).copy_((ddecay_NJK * part.rate_JK).sum(-1) + dwritten_NJ * part.x_NJ);
    made.rate_CK.narrow(0, first, count).copy_((ddecay_NJK * part.step_NJ.unsqueeze(-1)).sum(0));
    made.skip_C.narrow(0, first, count).copy_((dy_NJ * part.x_NJ).sum(0));
  });
  return {made.x_NC, made.step_NC, made.rate_CK, made.b_NK.to(input.b_NK.scalar_type()),
          made.c_NK.to(input.c_NK.scalar_type()), made.skip_C};
}

// States, their gradients and decays, what is made of each, and what a scan has for itself.
std::int64_t scan_backward_room(const ScanInput& input, const Documents&) {
  const std::int64_t of_channel = input.x_NC.size(0) * input.b_NK.size(1);
  const std::int64_t channels = std::clamp<std::int64_t>(kMostNumbers / of_channel, 1, input.x_NC.size(1));
  return 7 * of_channel * channels * static_cast<std::int64_t>(input.step_NC.element_size());
}

}  // namespace

Backend::SelectiveScan selective_scan() { return {scan_forward, scan_backward, scan_backward_room}; }

}  // namespace hone::ops::reference_table
