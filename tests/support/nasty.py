"""Path strings that nobody should have to meet."""

from hypothesis import strategies as st

NASTY = st.lists(
    st.one_of(
        st.sampled_from(
            ["/", "//", "..", ".", "\\", "~", "C:", "\0", "\n", " ", "a", "node_modules", ".env", "\u202e", "\ud800"]
        ),
        st.sampled_from(
            ["e\u0301", "\u00e9", "K", "\u212a", "\uff0f", "\uff0e\uff0e", "\u2024\u2024", "\ufb01", "con"]
        ),
        st.text(max_size=6),
    ),
    max_size=12,
).map("".join)
