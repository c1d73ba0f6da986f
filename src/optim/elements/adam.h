// One element's update by Adam: for the host's loop and, as text, for a GPU's kernel (optim/elementwise.h).
template <class T>
struct Element {
  static constexpr int kStates = 2;
  T scale, decay, keep;  // Common
  T to_m, beta2, to_v, eps, step_size, root_correction;

  HONE_ELEMENT void update(T g, T& w, T& m, T& v) const {
    const T gradient = g * scale + decay * w;
    m = m + to_m * (gradient - m);
    v = v * beta2 + to_v * gradient * gradient;
    w = w * keep - step_size * (m / (square_root(v) / root_correction + eps));
  }
};
