"""What people look at: one page of HTML, and its figures."""
